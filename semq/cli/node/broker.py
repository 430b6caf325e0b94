"""``semq broker queues|consumers|connections|channels|exchanges|bindings``: the AMQP broker of a node.

The lists are similar to those of ``rabbitmqctl list_…``. ``semq worker list`` uses ``print_pages``, too.
"""

from collections.abc import Sequence
from typing import Annotated

import typer

from semq.cli.output.values import brief_time
from semq.cli.session import Session, on_node

group = typer.Typer()
PAGE = 500  # rows in one answer
Vhost = Annotated[str | None, typer.Option("--vhost", metavar="NAME", help="Only this virtual host, for instance /.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Number of rows, at most.")]
NamePrefix = Annotated[str, typer.Option(metavar="TEXT", help="Only names that begin with TEXT.")]
QueuePrefix = Annotated[str, typer.Option(metavar="TEXT", help="Only queues whose names begin with TEXT.")]
UserPrefix = Annotated[str, typer.Option(metavar="TEXT", help="Only users whose names begin with TEXT.")]
SourcePrefix = Annotated[str, typer.Option(metavar="TEXT", help="Only exchanges whose names begin with TEXT.")]
# Operation | headings; after a colon, the key of the row if it is another word
COLUMNS = {
    "broker.queues": "vhost, queue:name, kind, durable, >ready, >unacked, >consumers",
    "broker.consumers": "queue, tag, user, peer, >prefetch, >unacked",
    "broker.connections": "user, peer, vhost, client, since:connected_at, >channels, >unacked",
    "broker.channels": "user, peer, >channel:number, mode, >prefetch, >unacked, >consumers",
    "broker.exchanges": "vhost, exchange:name, type, durable, >bindings",
    "broker.bindings": "vhost, source, destination, kind, routing key:routing_key",
    "worker.list": "worker:tag, inbox:queue, user, peer, since:connected_at, >at work:unacked",
}


@group.command()
@on_node
async def queues(session: Session, vhost: Vhost = None, name: NamePrefix = "", limit: Limit = 200) -> None:
    """List queues, with the numbers of ready and unacknowledged messages and of consumers."""
    await print_pages(session, "broker.queues", vhost, name, limit)


@group.command()
@on_node
async def consumers(session: Session, vhost: Vhost = None, queue: QueuePrefix = "", limit: Limit = 200) -> None:
    """List consumers in the order of their queues."""
    await print_pages(session, "broker.consumers", vhost, queue, limit)


@group.command()
@on_node
async def connections(session: Session, vhost: Vhost = None, user: UserPrefix = "", limit: Limit = 200) -> None:
    """List connections, with user, address and time of the login."""
    await print_pages(session, "broker.connections", vhost, user, limit)


@group.command()
@on_node
async def channels(session: Session, vhost: Vhost = None, user: UserPrefix = "", limit: Limit = 200) -> None:
    """List channels in the order of their connections."""
    await print_pages(session, "broker.channels", vhost, user, limit)


@group.command()
@on_node
async def exchanges(session: Session, vhost: Vhost = None, name: NamePrefix = "", limit: Limit = 200) -> None:
    """List exchanges. Messages to an exchange of a type x-… are processed by the node itself."""
    await print_pages(session, "broker.exchanges", vhost, name, limit)


@group.command()
@on_node
async def bindings(session: Session, vhost: Vhost = None, source: SourcePrefix = "", limit: Limit = 200) -> None:
    """List bindings in the order of their exchanges."""
    await print_pages(session, "broker.bindings", vhost, source, limit)


async def print_pages(session: Session, operation: str, vhost: str | None, name: str, limit: int) -> None:
    """Print at most ``limit`` rows of an operation, and a notice if there are more.

    ``name``: beginning of the names of the rows (queues, users or exchanges); empty: all rows.
    """
    rows: list[dict[str, object]] = []
    after: Sequence[str] | None = []
    while after is not None and len(rows) < limit:
        size = min(PAGE, limit - len(rows))
        answer = await session.ask(operation, vhost=vhost, name=name or None, limit=size, after=list(after))
        rows, after = rows + answer["rows"], answer["next"]
    columns = [column.partition(":") for column in COLUMNS[operation].split(", ")]
    keys = [key or heading.removeprefix(">") for heading, _, key in columns]
    session.out.rows(rows, ", ".join(heading for heading, _, _ in columns), (_cells(row, keys) for row in rows))
    if after is not None:
        session.out.notice(f"there are more than {limit} rows: --limit N")


def _cells(row: dict[str, object], keys: Sequence[str]) -> list[object]:
    return [brief_time(row.get(key)) if key.endswith("_at") else row.get(key) for key in keys]
