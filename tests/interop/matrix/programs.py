"""Sending and receiving all values by one client of another project, between two nodes."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import psycopg

from local_node.node import LocalNode
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.wire import find_fields, long_string
from semq.transport.client_channel import ClientChannel
from tests.interop.institutions import RECEIVER, url_of
from tests.interop.matrix.installation import Program, run
from tests.interop.matrix.values import PROPERTIES, RECEIVED, Given, Shown
from tests.transport.publishing import publish_and_wait
from tests.waiting import until
from tests.web.running import Site

QUEUE = "matrix"  # of both nodes: at the sender's it shows what a client wrote, at the receiver's it has all properties
Headers = Mapping[str, ContentHeader]  #: of the messages that arrived, by the name of the value


class NodesAndSites(NamedTuple):
    """Sender's and receiver's node with their web processes, and channels at both."""

    a: LocalNode
    b: LocalNode
    site_a: Site
    site_b: Site
    at_a: ClientChannel
    at_b: ClientChannel


class Arrived(NamedTuple):
    """What one client sent: the messages in a queue of its node, the documents at the other, and the refused values."""

    written: Headers  #: empty for an interface of SEMQ
    documents: Headers
    refused: Collection[str]


def value_in(headers: Headers, name: str) -> bytes:
    """Return the encoded header ``v`` of a message; empty if it has none."""
    return find_fields(headers[name].split_headers()[1], ("v",)).get("v", b"") if name in headers else b""


async def sent_by(nodes: NodesAndSites, program: Program, values: Sequence[Given]) -> Arrived:
    """Let a client send values, as documents and to a queue of the node."""
    errors: dict[str, str] = {}
    taken: dict[str, Headers] = {}
    for place, key in (("", QUEUE), ("semq", RECEIVER)):
        waiting = [_line(given) for given in values]
        while waiting:
            lines = "".join(json.dumps(line) + "\n" for line in waiting)
            printed = await run(program, "send", url_of(nodes.a), place, key, stdin=lines.encode())
            said = [json.loads(line) for line in printed]
            errors |= {name: error for name, error in said if error}
            done = {name for name, _ in said}
            errors |= {waiting[0].name: "ends"} if not done else {}
            waiting = [line for line in waiting if line.name not in done][not done :]
        channel, queue = (nodes.at_a, QUEUE) if not place else (nodes.at_b, "semq.inbox")
        taken[place] = await taken_from(channel, queue, len(values) - len(errors))
    return Arrived(taken[""], taken["semq"], set(errors))


def _line(given: Given) -> Given:
    return Given(given.name, "property", list(given)) if given in PROPERTIES else given


async def taken_from(channel: ClientChannel, queue: str, count: int) -> Headers:
    """Take the messages of a queue; return their content headers by body."""
    found: dict[str, ContentHeader] = {}

    async def take() -> bool:
        while (got := await channel.get(queue, no_ack=True)) is not None:
            found[bytes(got.body).decode("utf-8", "replace")] = got.header
        return len(found) >= count

    for _ in range(200):
        if await take():
            break
    return found


# ------------------------------------------------------------------------------------------------------- receivers


async def publish(nodes: NodesAndSites) -> None:
    """Send a document for each encoded value, and wait until all have arrived."""
    for name, field in RECEIVED.items():
        header = ContentHeader.build(len(name.encode()), Properties(headers=long_string(b"\x01v" + field)))
        assert await publish_and_wait(nodes.at_a, "semq", RECEIVER, header, name.encode())
    await until(lambda: waiting_at(nodes) == len(RECEIVED))


async def received_by(nodes: NodesAndSites, program: Program) -> dict[str, Shown | None]:
    """Return the values that a client shows, by name; None: it failed, and started again."""
    await publish(nodes)
    results: dict[str, Shown | None] = dict.fromkeys(RECEIVED)
    for _ in RECEIVED:  # each run takes at least one document
        said = [json.loads(line) for line in await run(program, "receive", url_of(nodes.b), "semq.inbox")]
        results |= dict(said)
        if waiting_at(nodes) == 0:
            break
    while await nodes.at_b.get("semq.inbox", no_ack=True) is not None:
        pass  # of a client that cannot log in
    return results


async def properties_shown_by(nodes: NodesAndSites, program: Program) -> dict[str, Shown | None]:
    """Return the properties of messages of a queue as a client shows them, by name; None: it failed."""
    results: dict[str, Shown | None] = {}
    for given in PROPERTIES:
        name = given.name
        assert await publish_and_wait(
            nodes.at_b, "", QUEUE, ContentHeader.build(len(name), properties([given])), name.encode()
        )
        said = [json.loads(line) for line in await run(program, "properties", url_of(nodes.b), QUEUE)]
        results |= dict(said) or {name: None}
    return results


def properties(given: Iterable[Given]) -> Properties:
    """Return the properties of a message, encoded by SEMQ."""
    values: dict[str, Any] = {name: int(value) if kind in ("int", "date") else value for name, kind, value in given}
    return Properties(**values)


def waiting_at(nodes: NodesAndSites) -> int:
    """Return the number of documents that wait for an application of the receiver."""
    with psycopg.connect(nodes.b.store.url) as connection:
        return int((connection.execute("SELECT count(*) FROM semq_inbox").fetchone() or (0,))[0])
