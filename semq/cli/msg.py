"""``semq msg``: hand a document over, take documents, look at messages. Looking never changes anything.

A message is named by its locator (LK0), by the number that lists show, or by the key of its AppKey.
"""

import sys
from base64 import b64decode, b64encode
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from semq.app import AppKey, Document
from semq.cli.desk import Desk, on_node
from semq.cli.errors import UnreadableFile
from semq.cli.shown import LIST_COLUMNS, facts_of, list_row, trace_line
from semq.cli.times import milliseconds_ago

group = typer.Typer()

Id = Annotated[str, typer.Argument(metavar="ID", help="Locator (LK0), number, or key.")]


class Side(StrEnum):
    """Which queues are looked at."""

    outbound = "outbound"
    inbound = "inbound"
    all = "all"


class WaitFor(StrEnum):
    """What has to be true before a command returns."""

    accepted = "accepted"
    delivered = "delivered"


@group.command()
@on_node
async def send(
    desk: Desk,
    to: Annotated[str, typer.Option(metavar="ADDRESS", help="56001, or a user of it: 56001/buyer.")],
    file: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="May be repeated; - is standard input.")
    ] = None,
    domain: Annotated[str, typer.Option(help="AppKey: domain.")] = "",
    type: Annotated[str, typer.Option(help="AppKey: data type, for instance order.")] = "",
    subtype: Annotated[str, typer.Option(help="AppKey: subtype.")] = "",
    key: Annotated[str | None, typer.Option(help="AppKey: key; the name of the file by default.")] = None,
    save_fwd: Annotated[int, typer.Option(help="1 drop if offline, 2 store if offline, 3 must get there.")] = 3,
    ack2: Annotated[bool | None, typer.Option("--ack2/--no-ack2", help="Want to know of the receipt.")] = None,
    order_key: Annotated[str, typer.Option(help="Documents with the same one stay in order.")] = "",
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Seal it for the receiver: the hub cannot read it.")
    ] = False,
    content_type: Annotated[str, typer.Option(help="MIME type of the body.")] = "",
    priority: Annotated[int, typer.Option(min=0, max=9)] = 0,
    expires_at: Annotated[int, typer.Option(metavar="MS", help="Milliseconds since 1970 UTC; 0 never.")] = 0,
    token: Annotated[str | None, typer.Option(help="Makes a repeat of this very command safe.")] = None,
    wait: Annotated[WaitFor, typer.Option(help="Return when the node has it, or the receiver.")] = WaitFor.accepted,
) -> None:
    """Hand documents over: semq msg send --to 56001 --type order --file o.xml --wait delivered --timeout 30"""
    for name in file or ["-"]:
        body = read_body(name)
        own_key = key if key is not None else ("" if name == "-" else Path(name).name)
        sent = await desk.client.send(
            to,
            body,
            app_key=AppKey(domain, type, subtype, own_key),
            save_fwd=save_fwd,
            ack2=ack2,
            order_key=order_key,
            content_type=content_type,
            priority=priority,
            expires_at=expires_at,
            encrypt=encrypt,
            token=token,
            timeout_s=desk.timeout_s,
        )
        told = {"lk0": sent.lk0, "repeated": sent.repeated, "digest": sent.digest, "token": sent.token}
        if wait is WaitFor.delivered:
            fate = await desk.client.wait_for_delivery(sent.lk0, desk.timeout_s)
            told["outcome"] = fate.outcome
        desk.out.say(told, f"{sent.lk0}  {'delivered' if wait is WaitFor.delivered else 'accepted'}")


@group.command()
@on_node
async def receive(
    desk: Desk,
    user: Annotated[str, typer.Option(help="A user of the institution; the institution itself by default.")] = "",
    count: Annotated[int, typer.Option(min=0, help="Take so many; 0: all that come.")] = 1,
    into: Annotated[Path | None, typer.Option(metavar="DIR", help="Write each body to a file here.")] = None,
    ack: Annotated[bool, typer.Option("--ack/--no-ack", help="Keep them waiting at the node with --no-ack.")] = True,
) -> None:
    """Take documents, until --count or nothing has come for --timeout seconds; each is acknowledged once it is
    printed.
    """
    taken = 0
    async with desk.client.receive(user, prefetch=max(min(count, 16), 1), idle_s=desk.timeout_s) as documents:
        async for document in documents:
            path = write_body(into, document) if into is not None else None
            show_document(desk, document, path)
            if ack:
                await document.ack()
            taken += 1
            if taken == count:
                break
    if taken < count:
        desk.out.talk(f"{taken} of {count} came within {desk.timeout_s:g} s")
        raise typer.Exit(1)


@group.command("list")
@on_node
async def list_(
    desk: Desk,
    side: Annotated[Side, typer.Option(help="What we sent, what we received, or both.")] = Side.all,
    state: Annotated[str | None, typer.Option(help="SS_SENT, DELIVERED, NEW, …: any status or outcome.")] = None,
    partner: Annotated[str | None, typer.Option(help="The institution at the other end.")] = None,
    type: Annotated[str | None, typer.Option(help="Data type of the AppKey.")] = None,
    key: Annotated[str | None, typer.Option(help="Key of the AppKey.")] = None,
    since: Annotated[str | None, typer.Option(metavar="AGE", help="30m, 2h, 7d, or a date.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
) -> None:
    """Messages in the queues of a node, the newest first."""
    rows = await desk.ask(
        "msg.list",
        side=side.value,
        state=state,
        partner=partner,
        type=type,
        key=key,
        since_ms=milliseconds_ago(since) if since else None,
        limit=limit,
    )
    if desk.out.as_json:
        desk.out.data(rows)
    else:
        desk.out.table(LIST_COLUMNS, map(list_row, rows))


@group.command()
@on_node
async def show(desk: Desk, id: Id) -> None:
    """Everything that a node knows of one message."""
    shown = await desk.client.look(id, timeout_s=desk.timeout_s)
    if desk.out.as_json:
        desk.out.data(shown)
    else:
        desk.out.facts(facts_of(shown))


@group.command()
@on_node
async def trace(
    desk: Desk,
    id: Id,
    with_hub: Annotated[
        bool, typer.Option("--with-hub", help="Ask the hub too, by way of this institution's node.")
    ] = False,
) -> None:
    """What has happened to one message, line by line, from the ledger of this node."""
    traced = await desk.ask("msg.trace", id=id, with_hub=with_hub or None)
    if desk.out.as_json:
        desk.out.data(traced)
        return
    for line in traced["events"]:
        desk.out.line(trace_line(line))
    if traced.get("unheard"):
        desk.out.talk(f"without the lines of the hub: {traced['unheard']}")
    if traced["others"]:
        desk.out.talk(f"the newest with this key; older ones: {', '.join(traced['others'])}")


@group.command()
@on_node
async def body(desk: Desk, id: Id) -> None:
    """The body of a message, as it was handed over, to standard output."""
    told = await desk.ask("msg.body", id=id)
    if desk.out.as_json:
        desk.out.data(told)
    else:
        desk.out.octets(b64decode(told["body_base64"]))


def read_body(name: str) -> bytes:
    """The bytes of a file, or of standard input for ``-``. Raises UnreadableFile."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UnreadableFile(file=name, fault=error.strerror) from error


def write_body(folder: Path, document: Document) -> Path:
    """Write a document into a folder, under its locator, so that a repeat overwrites itself. Raises UnreadableFile."""
    path = folder / f"{document.lk0}-{Path(document.app_key.key).name}".rstrip("-")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(document.payload)
    except OSError as error:
        raise UnreadableFile(file=str(path), fault=error.strerror) from error
    return path


def show_document(desk: Desk, document: Document, path: Path | None) -> None:
    """Print one received document."""
    if desk.out.as_json:
        desk.out.data(
            {
                "lk0": document.lk0,
                "source": document.source,
                "app_key": str(document.app_key),
                "content_type": document.content_type,
                "size": len(document.payload),
                "digest": document.digest,
                "is_intact": document.is_intact,
                "redelivered": document.redelivered,
                "deliveries": document.deliveries,
                "submitted_at": document.submitted_at.isoformat(),
                "file": str(path) if path else None,
                "body_base64": None if path else b64encode(document.payload).decode(),
            }
        )
    elif path is not None:
        desk.out.line(f"{document.lk0}  {document.source}  {document.app_key}  {path}")
    else:
        desk.out.talk(f"{document.lk0}  from {document.source}  {document.app_key}  {len(document.payload)} bytes")
        desk.out.octets(document.payload)
