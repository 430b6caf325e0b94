"""``semq msg send|wait|list|show|trace|body|prove``: send documents, and show documents without changing them."""

from base64 import b64decode
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from semq.app import AppKey, Sent
from semq.app.content_type import content_type_of
from semq.app.errors import NoReceiptRequested
from semq.cli.errors import TokenForSeveralFiles, UnusableFile
from semq.cli.messages.files import STDIN, first_block, read_bodies
from semq.cli.messages.presentation import (
    LIST_COLUMNS,
    MEMBER_COLUMNS,
    facts_of,
    list_row,
    member_row,
    name_of,
    print_rows,
    print_trace,
    stuck_lines,
)
from semq.cli.options.selection import (
    CodeOption,
    EndedOption,
    KeyOption,
    PartnerOption,
    PiecesOption,
    QueueSide,
    SideOption,
    StateOption,
    TypeOption,
)
from semq.cli.options.times import milliseconds_ago, milliseconds_ahead
from semq.cli.output.values import moment
from semq.cli.session import RowsOption, Session, on_node
from semq.errors import SemqError
from semq.umx_t.short_name import short_name

group = typer.Typer()

Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Short name, locator (LK0), row number, sql-NUMBER, key, or AppKey (domain/type/subtype/key).",
    ),
]


class WaitFor(StrEnum):
    """The event for which ``msg send`` waits."""

    accepted = "accepted"
    delivered = "delivered"


@group.command()
@on_node
async def send(
    session: Session,
    to: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Institution, one of its users, a group, or all users of an institution: 56001, 56001/buyer, "
            "3.retailers, 4.56001.",
        ),
    ],
    file: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="File to send; - is standard input. May be repeated.")
    ] = None,
    domain: Annotated[str, typer.Option(help="AppKey: domain.")] = "",
    type: Annotated[str, typer.Option(help="AppKey: data type, for instance order.")] = "",
    subtype: Annotated[str, typer.Option(help="AppKey: subtype.")] = "",
    key: Annotated[str | None, typer.Option(help="AppKey: key; default: the name of the file.")] = None,
    save_fwd: Annotated[
        int,
        typer.Option(
            help="If the receiver is offline: 1 drops the document, 2 stores it at the hub. 3 delivers it in any case."
        ),
    ] = 3,
    ack2: Annotated[
        bool | None,
        typer.Option(
            "--ack2/--no-ack2", help="Request a receipt of the receiver; default: on, except with --save-fwd 1."
        ),
    ] = None,
    reliable: Annotated[
        bool,
        typer.Option(
            "--reliable/--no-reliable", help="--no-reliable: best effort, as a datagram; only with --save-fwd 1."
        ),
    ] = True,
    order_key: Annotated[str, typer.Option(help="Documents with the same order key stay in order.")] = "",
    fixed: Annotated[
        bool, typer.Option("--fixed", help="Documents with --fixed to the same address stay in order.")
    ] = False,
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Seal the document for the receiver, so that the hub cannot read it.")
    ] = False,
    content_type: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="MIME type; default: by name or content of the file."),
    ] = None,
    content_encoding: Annotated[
        str, typer.Option(metavar="ENCODING", help="Encoding of the file, for instance gzip; it is sent as it is.")
    ] = "",
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Send a document even if it is empty.")] = False,
    priority: Annotated[int, typer.Option(min=0, max=9, help="Documents with a higher value are sent first.")] = 0,
    expires: Annotated[
        str,
        typer.Option(
            "--expires",
            "--expires-at",
            metavar="TIME",
            help="End of validity: 30m, 2h, 7d, or a date; default: none.",
        ),
    ] = "",
    not_before: Annotated[
        str, typer.Option("--not-before", metavar="TIME", help="Earliest time of sending: 30m, 2h, 7d, or a date.")
    ] = "",
    token: Annotated[
        str | None,
        typer.Option(help="Name of this submission, for one --file only: a repetition with this token sends nothing."),
    ] = None,
    wait: Annotated[
        WaitFor,
        typer.Option(
            help="accepted: wait until the node has it; delivered: until the receiver has it (needs a receipt)."
        ),
    ] = WaitFor.accepted,
) -> None:
    """Send documents: semq msg send --to 56001 --type order --file o.xml --wait delivered --timeout 30"""
    # In class 3 the receiver always sends a receipt to the node; ``ack2`` decides whether applications are notified.
    will_get_receipt = save_fwd == 3 or (ack2 if ack2 is not None else save_fwd == 2)
    if wait is WaitFor.delivered and not will_get_receipt:
        raise NoReceiptRequested(
            "Nothing was sent: without a receipt this node never learns about the delivery.", save_fwd=save_fwd
        )
    if token is not None and len(file or []) > 1:
        raise TokenForSeveralFiles(token=token, files=len(file or []))
    remaining = list(file or [])
    try:
        for name, body in read_bodies(file, allow_empty=allow_empty):
            remaining = remaining[1:]
            default_key = "" if name == STDIN else Path(name).name
            sent = await session.client.send(
                to,
                body,
                app_key=AppKey(domain, type, subtype, default_key if key is None else key),
                save_fwd=save_fwd,
                ack2=ack2,
                reliable=reliable,
                order_key=order_key,
                fixed=fixed,
                content_type=content_type if content_type is not None else content_type_of(name, first_block(body)),
                content_encoding=content_encoding,
                priority=priority,
                expires_at=milliseconds_ahead(expires) if expires else 0,
                not_before=milliseconds_ahead(not_before) if not_before else 0,
                encrypt=encrypt,
                token=token,
                timeout_s=session.timeout_s,
            )
            facts: dict[str, object] = {
                "name": sent.name,
                "lk0": sent.lk0,
                "repeated": sent.repeated,
                "digest": sent.digest,
                "token": sent.token,
            }
            if sent.not_before:
                facts["not_before"] = sent.not_before
            if wait is WaitFor.delivered:
                fate = await session.client.wait_for_delivery(sent.lk0, session.timeout_s)
                facts["outcome"] = fate.outcome
            result = "delivered" if wait is WaitFor.delivered else _accepted_as(sent)
            session.out.result(facts, f"{sent.name}  {result}")
    except SemqError:
        if 0 < len(remaining) < len(file or []):
            session.out.notice(f"not sent: {', '.join(remaining)}")
        raise


def _accepted_as(sent: Sent) -> str:
    if sent.repeated:
        return "was accepted before, with this token; nothing was sent"
    return f"scheduled for {moment(sent.not_before)}" if sent.not_before else "accepted"


@group.command()
@on_node
async def wait(session: Session, id: Id) -> None:
    """Wait until the receiver has a document, for --timeout seconds at most. Exit status 1: the document ended without
    delivery, or no receipt was requested.
    """
    fate = await session.client.wait_for_delivery(id, session.timeout_s)
    facts = {"name": short_name(fate.lk0) or fate.lk0, "lk0": fate.lk0, "outcome": fate.outcome}
    session.out.result(facts, f"{facts['name']}  delivered")


@group.command("list")
@on_node
async def list_(
    session: Session,
    side: SideOption = QueueSide.all,
    state: StateOption = None,
    partner: PartnerOption = None,
    type: TypeOption = None,
    key: KeyOption = None,
    code: CodeOption = None,
    since: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only documents since this time: an age (30m, 2h, 7d) or a date.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="AGE", help="Only documents before this time.")] = None,
    pieces: PiecesOption = False,
    ended: EndedOption = False,
    limit: RowsOption = 50,
) -> None:
    """List documents in the queues of a node, newest first; with --ended documents of any day that the ledger keeps."""
    rows = await session.rows(
        "msg.list",
        limit,
        side=side.value,
        state=state,
        partner=partner,
        type=type,
        key=key,
        code=code,
        since_ms=milliseconds_ago(since) if since else None,
        until_ms=milliseconds_ago(until) if until else None,
        pieces=pieces,
        ended=ended or None,
    )
    print_rows(session.out, LIST_COLUMNS, rows, list_row)


@group.command()
@on_node
async def show(session: Session, id: Id) -> None:
    """Show all facts that a node has about one document."""
    shown = await session.client.look(id, timeout_s=session.timeout_s)
    if session.out.as_json:
        session.out.data(shown)
    else:
        session.out.facts(facts_of(shown))
        if "members" in shown:
            session.out.table(MEMBER_COLUMNS, map(member_row, shown["members"]))
        if shown.get("stuck") or shown.get("cleaned") or shown.get("not_before"):
            session.out.line("")
            for line in stuck_lines(shown.get("stuck"), shown):
                session.out.line(line)


@group.command()
@on_node
async def trace(
    session: Session,
    id: Id,
    here: Annotated[bool, typer.Option("--here", help="Read only this node's ledger.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Print digests, and details with all their lines, for instance tracebacks.")
    ] = False,
) -> None:
    """Show the history of one document from the ledgers of its sender, the hub and its receiver. Each line names its
    node; the clocks of nodes may differ.
    """
    traced = await session.ask("msg.trace", id=id, parties=not here or None)
    if session.out.as_json:
        session.out.data(traced)
        return
    print_trace(session.out, traced, full=full)


@group.command()
@on_node
async def body(session: Session, id: Id) -> None:
    """Write the body of a document to standard output, unchanged."""
    if session.out.as_json:
        session.out.data(await session.ask("msg.body", id=id))
        return
    answer = await session.ask("msg.body", id=id, offset=0)
    block = b64decode(answer["body_base64"])
    written = len(block)
    session.out.raw(block)
    while block and written < answer["size"]:
        answer = await session.ask("msg.body", id=answer["lk0"], offset=written)
        block = b64decode(answer["body_base64"])
        written += len(block)
        session.out.raw(block)


@group.command()
@on_node
async def prove(
    session: Session,
    id: Id,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File to write; default: standard output.")
    ] = None,
) -> None:
    """Write the proof that the receiver has a document: a file with its signed receipt, which `semq verify` checks."""
    answer = await session.ask("msg.prove", id=id)
    if out is None:
        session.out.raw(answer["proof"].encode())
        return
    try:
        out.write_text(answer["proof"], "utf-8")
    except OSError as error:
        raise UnusableFile(file=str(out), fault=error.strerror) from error
    session.out.result(
        {"name": name_of(answer), "lk0": answer["lk0"], "receiver": answer["receiver"], "file": str(out)},
        f"{name_of(answer)}  {answer['receiver']}  {out}",
    )
