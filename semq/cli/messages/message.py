"""``semq msg``: send documents, and show messages, which changes nothing.

A message is named by the short name that lists show, its locator (LK0), the number of its row or of its submission by
SQL (sql-NUMBER), or the key of its AppKey.
"""

from base64 import b64decode
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from semq.app import AppKey, Sent
from semq.app.content_type import content_type_of
from semq.app.errors import NoReceiptRequested
from semq.cli.errors import UnreadableFile
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
from semq.cli.options.times import milliseconds_ago, milliseconds_ahead
from semq.cli.output.values import moment
from semq.cli.session import Session, on_node
from semq.umx_t.short_name import short_name

group = typer.Typer()

Id = Annotated[str, typer.Argument(metavar="ID", help="Short name, locator (LK0), sql-NUMBER, or key.")]


class QueueSide(StrEnum):
    """The queues that are listed."""

    outbound = "outbound"
    inbound = "inbound"
    all = "all"


class WaitFor(StrEnum):
    """The event that a command waits for."""

    accepted = "accepted"
    delivered = "delivered"


@group.command()
@on_node
async def send(
    session: Session,
    to: Annotated[str, typer.Option(metavar="ADDRESS", help="Institution, or a user of it: 56001, 56001/buyer.")],
    file: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="File to send; may be repeated; - is standard input.")
    ] = None,
    domain: Annotated[str, typer.Option(help="AppKey: domain.")] = "",
    type: Annotated[str, typer.Option(help="AppKey: data type, for instance order.")] = "",
    subtype: Annotated[str, typer.Option(help="AppKey: subtype.")] = "",
    key: Annotated[str | None, typer.Option(help="AppKey: key; the name of the file by default.")] = None,
    save_fwd: Annotated[int, typer.Option(help="1 drop if offline, 2 store if offline, 3 must be delivered.")] = 3,
    ack2: Annotated[bool | None, typer.Option("--ack2/--no-ack2", help="Request a receipt of the receiver.")] = None,
    reliable: Annotated[
        bool, typer.Option("--reliable/--no-reliable", help="Not: best effort, as a datagram; only with --save-fwd 1.")
    ] = True,
    order_key: Annotated[str, typer.Option(help="Documents with the same key stay in order.")] = "",
    fixed: Annotated[
        bool, typer.Option("--fixed", help="Keep the sequence of all such documents to this address.")
    ] = False,
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Seal the document for the receiver, so that the hub cannot read it.")
    ] = False,
    content_type: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="MIME type; by default from name or content of the file."),
    ] = None,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Send a document even if it is empty.")] = False,
    priority: Annotated[int, typer.Option(min=0, max=9, help="Higher values are sent first.")] = 0,
    expires: Annotated[
        str,
        typer.Option(
            "--expires",
            "--expires-at",
            metavar="TIME",
            help="End of validity: 30m, 2h, 7d, or a date; by default never.",
        ),
    ] = "",
    not_before: Annotated[
        str, typer.Option("--not-before", metavar="TIME", help="Earliest time of sending: 30m, 2h, 7d, or a date.")
    ] = "",
    token: Annotated[str | None, typer.Option(help="Makes a repetition of this command safe.")] = None,
    wait: Annotated[
        WaitFor, typer.Option(help="Return when the node has it, or when the receiver has it (--ack2 or --save-fwd 3).")
    ] = WaitFor.accepted,
) -> None:
    """Send documents: semq msg send --to 56001 --type order --file o.xml --wait delivered --timeout 30"""
    asks_for_receipt = save_fwd == 3 or (ack2 if ack2 is not None else save_fwd != 1)
    if wait is WaitFor.delivered and not asks_for_receipt:
        raise NoReceiptRequested(
            "Nothing was sent: without a receipt this node never learns whether it is delivered.", save_fwd=save_fwd
        )
    for name, body in read_bodies(file, allow_empty=allow_empty):
        own_key = key if key is not None else ("" if name == STDIN else Path(name).name)
        sent = await session.client.send(
            to,
            body,
            app_key=AppKey(domain, type, subtype, own_key),
            save_fwd=save_fwd,
            ack2=ack2,
            reliable=reliable,
            order_key=order_key,
            fixed=fixed,
            content_type=content_type if content_type is not None else content_type_of(name, first_block(body)),
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
        session.out.result(facts, f"{facts['name']}  {'delivered' if wait is WaitFor.delivered else _state_of(sent)}")


def _state_of(sent: Sent) -> str:
    if sent.repeated:
        return "was accepted before, with this token; nothing was sent"
    return f"scheduled for {moment(sent.not_before)}" if sent.not_before else "accepted"


@group.command()
@on_node
async def wait(session: Session, id: Id) -> None:
    """Wait up to --timeout seconds until the receiver has a message; exit status 1 if it ended otherwise, or if no
    receipt will come.
    """
    fate = await session.client.wait_for_delivery(id, session.timeout_s)
    facts = {"name": short_name(fate.lk0) or fate.lk0, "lk0": fate.lk0, "outcome": fate.outcome}
    session.out.result(facts, f"{facts['name']}  delivered")


@group.command("list")
@on_node
async def list_(
    session: Session,
    side: Annotated[QueueSide, typer.Option(help="Queue of sent or of received messages, or both.")] = QueueSide.all,
    state: Annotated[str | None, typer.Option(help="Status or outcome, for instance SS_SENT, DELIVERED, NEW.")] = None,
    partner: Annotated[str | None, typer.Option(help="The institution at the other end.")] = None,
    type: Annotated[str | None, typer.Option(help="Data type of the AppKey.")] = None,
    key: Annotated[str | None, typer.Option(help="Key of the AppKey.")] = None,
    since: Annotated[str | None, typer.Option(metavar="AGE", help="30m, 2h, 7d, or a date.")] = None,
    pieces: Annotated[bool, typer.Option("--pieces", help="Also pieces of documents in pieces.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
) -> None:
    """List messages in the queues of a node, newest first."""
    rows = await session.ask(
        "msg.list",
        side=side.value,
        state=state,
        partner=partner,
        type=type,
        key=key,
        since_ms=milliseconds_ago(since) if since else None,
        limit=limit,
        **({"pieces": True} if pieces else {}),
    )
    if session.out.as_json:
        session.out.data(rows)
    else:
        print_rows(session.out, LIST_COLUMNS, rows, list_row)


@group.command()
@on_node
async def show(session: Session, id: Id) -> None:
    """Show everything that a node knows about one message."""
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
    here: Annotated[bool, typer.Option("--here", help="Only this node's ledger.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Print all lines of details, for instance tracebacks.")] = False,
) -> None:
    """Show the history of one message from the ledgers of its sender, the hub and its receiver, as far as they answer.
    Each line names its node; clocks may differ.
    """
    traced = await session.ask("msg.trace", id=id, parties=not here or None)
    if session.out.as_json:
        session.out.data(traced)
        return
    print_trace(session.out, traced, full=full)


@group.command()
@on_node
async def body(session: Session, id: Id) -> None:
    """Write the body of a message to standard output, unchanged."""
    if session.out.as_json:
        session.out.data(await session.ask("msg.body", id=id))
        return
    answer = await session.ask("msg.body", id=id, offset=0)
    read = b64decode(answer["body_base64"])
    written = len(read)
    session.out.raw(read)
    while read and written < answer["size"]:
        answer = await session.ask("msg.body", id=answer["lk0"], offset=written)
        read = b64decode(answer["body_base64"])
        written += len(read)
        session.out.raw(read)


@group.command()
@on_node
async def prove(
    session: Session,
    id: Id,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="File to write.")] = None,
) -> None:
    """Make the file that proves to anybody that the receiver has a message: its signed receipt. `semq verify` checks
    it.
    """
    answer = await session.ask("msg.prove", id=id)
    if out is None:
        session.out.raw(answer["proof"].encode())
        return
    try:
        out.write_text(answer["proof"], "utf-8")
    except OSError as error:
        raise UnreadableFile(file=str(out), fault=error.strerror) from error
    session.out.result(
        {"name": name_of(answer), "lk0": answer["lk0"], "receiver": answer["receiver"], "file": str(out)},
        f"{name_of(answer)}  {answer['receiver']}  {out}",
    )
