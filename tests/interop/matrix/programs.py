"""Sending and receiving all values by one client, between two nodes; also by SEMQ's own interfaces."""

import json
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg
from psycopg.types.json import Jsonb

from local_node.node import LocalNode
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.wire import find_fields, long_string
from semq.app import Client
from semq.transport.client_channel import ClientChannel
from semq.web.api.documents import FORM
from tests.interop.matrix.installation import Program, run
from tests.interop.matrix.values import RECEIVED, SENT, Given, Shown, shown
from tests.transport.publishing import publish_and_wait
from tests.waiting import until
from tests.web.running import Site

QUEUE = "matrix"  # of the sender's node: it shows what a client wrote, without a document
TARGET = "56001"
DOORS = ("SQL", "HTTP (JSON)", "semq.app")


class NodesAndSites(NamedTuple):
    """Sender's and receiver's node with their web processes, and channels at both."""

    a: LocalNode
    b: LocalNode
    site_a: Site
    site_b: Site
    at_a: ClientChannel
    at_b: ClientChannel


def url_of(node: LocalNode) -> str:
    return f"amqp://guest:guest@127.0.0.1:{node.port}"


class Arrived(NamedTuple):
    """What one client sent: the encoded values by name, errors by name, and the values that the node changed."""

    fields: dict[str, bytes]
    errors: dict[str, str]
    changed: list[str]


async def sent_by(nodes: NodesAndSites, program: Program) -> Arrived:
    """Let a client send all values, as documents and to a queue of the node."""
    errors: dict[str, str] = {}
    taken: dict[str, dict[str, bytes]] = {}
    for place, key in (("", QUEUE), ("semq", TARGET)):
        waiting = list(SENT)
        while waiting:
            lines = "".join(json.dumps(given) + "\n" for given in waiting)
            printed = await run(program, "send", url_of(nodes.a), place, key, stdin=lines.encode())
            said = [json.loads(line) for line in printed]
            errors |= {name: error for name, error in said if error}
            done = {name for name, _ in said}
            errors |= {waiting[0].name: "ends"} if not done else {}
            waiting = [given for given in waiting if given.name not in done][not done :]
        channel, queue = (nodes.at_a, QUEUE) if not place else (nodes.at_b, "semq.inbox")
        expected_count = len(SENT) - len(errors)
        taken[place] = await _taken(channel, queue, expected_count)
    changed = [name for name, field in taken[""].items() if taken["semq"].get(name, b"") != field]
    return Arrived(taken["semq"], errors, changed)


async def _taken(channel: ClientChannel, queue: str, count: int) -> dict[str, bytes]:
    """Take the messages of a queue; return the bytes of their header ``v``, by body."""
    found: dict[str, bytes] = {}

    async def take() -> bool:
        while (got := await channel.get(queue, no_ack=True)) is not None:
            _, fields = got.header.split_headers()
            found[bytes(got.body).decode("utf-8", "replace")] = find_fields(fields, ("v",)).get("v", b"")
        return len(found) >= count

    for _ in range(200):
        if await take():
            break
    return found


async def sent_by_door(nodes: NodesAndSites, door: str) -> Arrived:
    """Send all values by an interface of SEMQ that takes JSON or Python's values."""
    errors: dict[str, str] = {}
    send = await _sender(nodes, door)
    for given in SENT:
        try:
            value = value_of(given, is_json=door != "semq.app")
            await send(given.name.encode(), {"v": value})
        except Exception as error:  # noqa: BLE001  # each interface has errors of its own
            errors[given.name] = type(error).__name__
    return Arrived(await _taken(nodes.at_b, "semq.inbox", len(SENT) - len(errors)), errors, [])


async def _sender(nodes: NodesAndSites, door: str) -> Callable[[bytes, dict[str, Any]], Awaitable[Any]]:
    if door == "SQL":

        async def by_sql(body: bytes, headers: dict[str, Any]) -> None:
            with psycopg.connect(nodes.a.store.url) as connection:
                connection.execute("SELECT semq_send(%s, %s, headers => %s)", (TARGET, body, Jsonb(headers)))

        return by_sql
    if door == "HTTP (JSON)":
        program = await nodes.site_a.program("submit")

        async def by_http(body: bytes, headers: dict[str, Any]) -> None:
            form = {"target": TARGET, "body_base64": b64encode(body).decode(), "headers": headers}
            answer = await program.post("/documents", json=form, headers={"content-type": FORM})
            assert answer.status_code == 201, answer.text

        return by_http
    client = await Client(url_of(nodes.a)).connect()

    async def by_app(body: bytes, headers: dict[str, Any]) -> None:
        await client.send(TARGET, body, headers=headers)

    return by_app


def value_of(given: Given, *, is_json: bool) -> Any:
    """Return the value for an interface of SEMQ. Raises ValueError if JSON has no such value."""
    match given.kind:
        case "int" | "float":
            return {"int": int, "float": float}[given.kind](given.value)
        case "bytes" | "octets" | "date" | "decimal" if is_json:
            raise ValueError
        case "bytes" | "octets":
            return bytes.fromhex(given.value)
        case "date":
            return datetime.fromtimestamp(int(given.value), UTC)  # semq.app refuses it
        case "decimal":
            return Decimal(given.value)
        case "array":
            return [value_of(Given("", *each), is_json=is_json) for each in given.value]
        case "table":
            return {name: value_of(Given("", *each), is_json=is_json) for name, each in given.value.items()}
    return given.value


# ------------------------------------------------------------------------------------------------------- receivers


async def publish(nodes: NodesAndSites, names: Sequence[str]) -> None:
    """Send a document for each encoded value, and wait until all have arrived."""
    for name in names:
        table = long_string(b"\x01v" + RECEIVED[name])
        header = ContentHeader.build(len(name.encode()), Properties(headers=table))
        assert await publish_and_wait(nodes.at_a, "semq", TARGET, header, name.encode())
    await until(lambda: _waiting(nodes) == len(names))


async def received_by(nodes: NodesAndSites, program: Program) -> dict[str, Shown | None]:
    """Return the values that a client shows, by name; None: it failed, and started again."""
    await publish(nodes, list(RECEIVED))
    results: dict[str, Shown | None] = dict.fromkeys(RECEIVED)
    for _ in RECEIVED:  # each run takes at least one document
        said = [json.loads(line) for line in await run(program, "receive", url_of(nodes.b), "semq.inbox")]
        results |= dict(said)
        if _waiting(nodes) == 0:
            break
    while await nodes.at_b.get("semq.inbox", no_ack=True) is not None:
        pass  # of a client that cannot log in
    return results


def _waiting(nodes: NodesAndSites) -> int:
    with psycopg.connect(nodes.b.store.url) as connection:
        return int((connection.execute("SELECT count(*) FROM semq_inbox").fetchone() or (0,))[0])


async def received_by_door(nodes: NodesAndSites, door: str) -> dict[str, Shown | None]:
    """Return the values that an interface of SEMQ shows."""
    await publish(nodes, list(RECEIVED))
    if door == "SQL":
        with psycopg.connect(nodes.b.store.url) as connection:
            rows = connection.execute("SELECT bref, payload, headers FROM semq_receive('', 1000)").fetchall()
            for bref, _, _ in rows:
                connection.execute("SELECT semq_done(%s)", (bref,))
        await until(lambda: not nodes.b.engine.handover.out)
        return {bytes(payload).decode(): shown(headers["v"]) for _, payload, headers in rows}
    if door == "HTTP (JSON)":
        program = await nodes.site_b.program("receive")
        results: dict[str, Shown | None] = {}
        while len(results) < len(RECEIVED):
            answer = await program.post("/inbox/receive", params={"wait_s": 30})
            for document in answer.json()["documents"]:
                results[b64decode(document["body_base64"]).decode()] = shown(document["headers"]["v"])
                await program.post(f"/inbox/leases/{document['lease']}/ack")
        return results
    results = {}
    async with Client(url_of(nodes.b)) as client, client.receive() as documents:
        async for document in documents:
            results[document.payload.decode()] = shown(document.headers["v"])
            await document.ack()
            if len(results) == len(RECEIVED):
                break
    return results
