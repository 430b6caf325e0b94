"""``semq msg receive``: documents from the node's inbox to standard output or into a folder.

The folder is made and checked before documents are requested. A document is acknowledged when it is printed or on the
disk. A document that cannot be written does not block later documents; the next command receives it again.
"""

from base64 import b64encode
from pathlib import Path
from typing import Annotated

import typer

from semq.app import Document
from semq.app.subscription import PREFETCH_MAX
from semq.cli.errors import NotWritten, UnusableFile
from semq.cli.messages.files import make_usable, write_body
from semq.cli.messages.message import group
from semq.cli.output.printer import Output
from semq.cli.output.values import counted
from semq.cli.session import Session, on_node
from semq.umx_t.short_name import short_name

PREFETCH = 16  # documents that the node sends before the first is acknowledged
UNWRITTEN_MAX = 16  # unwritten documents after which the command ends


@group.command()
@on_node
async def receive(
    session: Session,
    user: Annotated[str, typer.Option(help="User whose inbox is read; default: the institution itself.")] = "",
    count: Annotated[int, typer.Option(min=0, help="Documents to receive; 0: no limit.")] = 1,
    into: Annotated[Path | None, typer.Option(metavar="DIR", help="Write each body to a file in this folder.")] = None,
    ack: Annotated[
        bool, typer.Option("--ack/--no-ack", help="--no-ack: leave the documents. After 20 deliveries they are parked.")
    ] = True,
) -> None:
    """Receive --count documents, or fewer if none arrives for --timeout seconds (exit status 1). A document is
    acknowledged after it is printed or written.
    """
    if into is not None:
        make_usable(into)
    inbox = InboxReader(session, into, ack)
    while await inbox.run(user, count) and len(inbox.unwritten) < UNWRITTEN_MAX:
        pass  # subscribe again, with a prefetch that also has room for the unwritten documents
    if inbox.unwritten:
        raise NotWritten(documents=len(inbox.unwritten), taken=inbox.taken)
    if inbox.taken < count:
        session.out.notice(f"received {inbox.taken} of {count}; no document arrived for {session.timeout_s:g} s")
        raise typer.Exit(1)


class InboxReader:
    """The subscriptions of one command to an inbox. ``into``: folder for bodies; None: print them."""

    def __init__(self, session: Session, into: Path | None, ack: bool) -> None:
        self._session = session
        self._into = into
        self._ack = ack
        self.taken = 0  #: documents that were printed or written
        self.unwritten: set[str] = set()  #: locators of documents that could not be written
        self._left: set[str] = set()  #: locators of documents that are left at the node: unwritten or with --no-ack

    async def run(self, user: str, count: int) -> bool:
        """Receive until ``count`` documents (0: no limit) are taken, one cannot be written, or none arrives in time.

        Return True if a document could not be written.
        """
        most = PREFETCH if self._ack else PREFETCH_MAX  # without acknowledgements, no document makes room for the next
        wanted = min(count - self.taken, most) if count else most
        prefetch = min(wanted + len(self._left), PREFETCH_MAX)
        async with self._session.client.receive(user, prefetch=prefetch, idle_s=self._session.timeout_s) as documents:
            async for document in documents:
                if document.lk0 in self._left:
                    continue
                is_kept = self._keep(document)
                if not is_kept or not self._ack:
                    self._left.add(document.lk0)
                if not is_kept:
                    return True
                if self._ack:
                    await document.ack()
                self.taken += 1
                if self.taken == count:
                    break
        return False

    def _keep(self, document: Document) -> bool:
        """Print or write a document; return whether that succeeded."""
        try:
            path = write_body(self._into, document) if self._into is not None else None
        except UnusableFile as error:
            self.unwritten.add(document.lk0)
            self._session.out.notice(f"{short_name(document.lk0)}  not written, not acknowledged: {error}")
            return False
        print_document(self._session.out, document, path)
        return True


def print_document(out: Output, document: Document, path: Path | None) -> None:
    """Print one received document. ``path``: file of its body; None: print the body, too."""
    name = short_name(document.lk0)
    if out.as_json:
        body = {"file": str(path), "body_base64": None}
        if path is None:
            body = {"file": None, "body_base64": b64encode(document.payload).decode()}
        further = {"size": document.size, "is_intact": document.is_intact}
        out.data({"name": name, **document.described(), **further, **body})
    elif path is not None:
        out.line(f"{name}  {document.source}  {document.app_key}  {path}")
    else:
        out.notice(f"{name}  from {document.source}  {document.app_key}  {counted(document.size, 'byte')}")
        for block in document.blocks():
            out.raw(block)
