"""``semq msg receive``: documents from the node's inbox to standard output or into a folder.

A document is acknowledged once it is printed, or on the disk. One that cannot be written is reported and not
acknowledged; it does not block those behind it, and is delivered again to the next command.
"""

from base64 import b64encode
from pathlib import Path
from typing import Annotated

import typer

from semq.app import Document
from semq.cli.errors import NotWritten, UnreadableFile
from semq.cli.messages.files import write_body
from semq.cli.messages.message import group
from semq.cli.output.values import counted
from semq.cli.session import Session, on_node
from semq.moments import utc_text
from semq.umx_t.short_name import short_name

PREFETCH = 16
UNWRITTEN_MAX = 16  # after so many documents that cannot be written, the folder is at fault, not the documents


@group.command()
@on_node
async def receive(
    session: Session,
    user: Annotated[str, typer.Option(help="A user of the institution; the institution itself by default.")] = "",
    count: Annotated[int, typer.Option(min=0, help="Number of documents; 0: no limit.")] = 1,
    into: Annotated[Path | None, typer.Option(metavar="DIR", help="Write each body to a file here.")] = None,
    ack: Annotated[bool, typer.Option("--ack/--no-ack", help="With --no-ack the documents stay at the node.")] = True,
) -> None:
    """Receive documents: --count of them, or until none has come for --timeout seconds; each is acknowledged once it is
    printed or written.
    """
    intake = TakenDocuments(session, into, ack)
    while await intake.run(user, count) and len(intake.unwritten) < UNWRITTEN_MAX:
        pass  # with one more delivery for each document that stays unacknowledged
    if intake.unwritten:
        raise NotWritten(documents=len(intake.unwritten), taken=intake.taken)
    if intake.taken < count:
        session.out.notice(f"{intake.taken} of {count} came within {session.timeout_s:g} s")
        raise typer.Exit(1)


class TakenDocuments:
    """The documents that one command has received."""

    def __init__(self, session: Session, into: Path | None, ack: bool) -> None:
        self._session = session
        self._into = into
        self._ack = ack
        self.taken = 0
        self.unwritten: set[str] = set()  #: LK0

    async def run(self, user: str, count: int) -> bool:
        """Receive up to ``count`` documents; return whether one could not be written, so that others may be waiting."""
        prefetch = max(min(count - self.taken, PREFETCH), 1) + len(self.unwritten)
        async with self._session.client.receive(user, prefetch=prefetch, idle_s=self._session.timeout_s) as documents:
            async for document in documents:
                if document.lk0 in self.unwritten:
                    continue
                if not self._kept(document):
                    return True
                if self._ack:
                    await document.ack()
                self.taken += 1
                if self.taken == count:
                    break
        return False

    def _kept(self, document: Document) -> bool:
        """Print or write a document; return whether that succeeded."""
        try:
            path = write_body(self._into, document) if self._into is not None else None
        except UnreadableFile as error:
            self.unwritten.add(document.lk0)
            self._session.out.notice(f"{short_name(document.lk0)}  not written, not acknowledged: {error}")
            return False
        show_document(self._session, document, path)
        return True


def show_document(session: Session, document: Document, path: Path | None) -> None:
    """Print one received document."""
    name = short_name(document.lk0)
    if session.out.as_json:
        session.out.data(
            {
                "name": name,
                "lk0": document.lk0,
                "source": document.source,
                "app_key": str(document.app_key),
                "content_type": document.content_type,
                "size": document.size,
                "digest": document.digest,
                "is_intact": document.is_intact,
                "redelivered": document.redelivered,
                "deliveries": document.deliveries,
                "origin_proved": document.origin_proved,
                "submitted_at": utc_text(document.submitted_at, exact=True),
                "file": str(path) if path else None,
                "body_base64": None if path else b64encode(document.payload).decode(),
            }
        )
    elif path is not None:
        session.out.line(f"{name}  {document.source}  {document.app_key}  {path}")
    else:
        session.out.notice(f"{name}  from {document.source}  {document.app_key}  {counted(document.size, 'byte')}")
        for block in document.blocks():
            session.out.raw(block)
