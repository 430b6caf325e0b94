"""Sending and receiving all values by SEMQ's own interfaces."""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psycopg
from psycopg.types.json import Jsonb
from pydantic import SecretStr

from local_node.doors.properties import CARRIED
from local_node.node import LocalNode
from semq.amqp.content import ContentHeader
from semq.app import Client
from semq.clock import SystemClock
from semq.config.sections import FolderSection, WebhookSection
from semq.config.settings import Settings
from semq.folders import process as folders
from semq.folders.layout import NOTE
from semq.service.companion.section_states import SectionStates
from semq.web.api.documents import FORM
from semq.webhooks import process as webhooks
from tests.interop.institutions import RECEIVER, url_of
from tests.interop.matrix.programs import (
    Arrived,
    NodesAndSites,
    properties,
    publish,
    taken_from,
    waiting_at,
)
from tests.interop.matrix.values import PROPERTIES, RECEIVED, Given, Shown, shown
from tests.transport.publishing import publish_and_wait
from tests.waiting import until
from tests.webhooks.hook import serving

Described = Mapping[str, Any]  #: of a received document, in the words of the interface
Send = Callable[[bytes, dict[str, Any], dict[str, Any]], Awaitable[Any]]  #: body, own headers, other attributes
SENDING_DOORS = ("SQL", "HTTP (JSON)", "semq.app")
DOORS = (*SENDING_DOORS, "folders", "webhooks")
OWN_HEADER = "semq-header-"  # of a webhook


async def sent_by_door(nodes: NodesAndSites, door: str, values: tuple[Given, ...]) -> Arrived:
    """Send all values by an interface of SEMQ that takes JSON or Python's values."""
    refused = set()
    send = await _sender(nodes, door)
    for given in values:
        try:
            value = value_of(given, is_json=door != "semq.app", is_property=given in PROPERTIES)
            own, more = ({"v": value}, {}) if given not in PROPERTIES else _as_attribute(given.name, value)
            await send(given.name.encode(), own, more)
        except Exception:  # noqa: BLE001  # each interface has errors of its own
            refused.add(given.name)
    return Arrived({}, await taken_from(nodes.at_b, "semq.inbox", len(values) - len(refused)), refused)


def _as_attribute(name: str, value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return own header, or attribute, that stands for a property. Raises ValueError if there is none."""
    match name:
        case "content_type" | "content_encoding" | "priority":
            return {}, {name: value}
        case "expiration":
            return {}, {"expires_at": int(datetime.now(UTC).timestamp() * 1000) + int(value)}
        case _ if name in CARRIED:
            return {CARRIED[name]: value}, {}
    raise ValueError(name)


async def _sender(nodes: NodesAndSites, door: str) -> Send:
    if door == "SQL":

        async def by_sql(body: bytes, headers: dict[str, Any], more: dict[str, Any]) -> None:
            if "expires_at" in more:
                more["expires_at"] = datetime.fromtimestamp(more["expires_at"] / 1000, UTC)
            given = "".join(f", {name} => %({name})s" for name in more)
            with psycopg.connect(nodes.a.store.url) as connection:
                connection.execute(
                    f"SELECT semq_send(%(target)s, %(body)s, headers => %(headers)s{given})",
                    {"target": RECEIVER, "body": body, "headers": Jsonb(headers), **more},
                )

        return by_sql
    if door == "HTTP (JSON)":
        program = await nodes.site_a.program("submit")

        async def by_http(body: bytes, headers: dict[str, Any], more: dict[str, Any]) -> None:
            form = {"target": RECEIVER, "body_base64": b64encode(body).decode(), "headers": headers, **more}
            answer = await program.post("/documents", json=form, headers={"content-type": FORM})
            assert answer.status_code == 201, answer.text

        return by_http
    client = await Client(url_of(nodes.a)).connect()

    async def by_app(body: bytes, headers: dict[str, Any], more: dict[str, Any]) -> None:
        await client.send(RECEIVER, body, headers=headers, **more)

    return by_app


def value_of(given: Given, *, is_json: bool, is_property: bool = False) -> Any:
    """Return the value for an interface of SEMQ. Raises ValueError if JSON has no such value."""
    match given.kind:
        case "int" | "float":
            return {"int": int, "float": float}[given.kind](given.value)
        case "date" if is_property:
            return int(given.value)
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


async def received_by_door(nodes: NodesAndSites, door: str, folder: Path) -> dict[str, Shown | None]:
    """Return the values that an interface of SEMQ shows. ``folder``: an empty one for files."""
    await publish(nodes)
    documents = await documents_at(nodes, door, folder, len(RECEIVED))
    if door != "webhooks":
        return {body: shown(document["headers"]["v"]) for body, document in documents.items()}
    texts = {body: document.get(f"{OWN_HEADER}v") for body, document in documents.items()}
    return {body: None if text is None else ["text", unquote(text)] for body, text in texts.items()}


async def places_at(nodes: NodesAndSites, door: str, folder: Path) -> dict[str, str]:
    """Return for each property where an interface shows it; empty: nowhere."""
    for given in PROPERTIES:
        header = ContentHeader.build(len(given.name), properties([given]))
        assert await publish_and_wait(nodes.at_a, "semq", RECEIVER, header, given.name.encode())
    await until(lambda: waiting_at(nodes) == len(PROPERTIES))
    documents = await documents_at(nodes, door, folder, len(PROPERTIES))
    return {given.name: _place(documents[given.name], given) for given in PROPERTIES}


def _place(document: Described, given: Given) -> str:
    found = [
        f"{name}.{inner}" if inner else name
        for name, value in document.items()
        for inner, each in (value.items() if isinstance(value, Mapping) else [("", value)])
        if given.name in f"{name} {inner}".replace("-", "_") and unquote(str(each)) == given.value
    ]
    return min(found, default="")


async def documents_at(nodes: NodesAndSites, door: str, folder: Path, count: int) -> dict[str, Described]:
    """Take the waiting documents by an interface; return its description of each, by body."""
    match door:
        case "SQL":
            return await _by_sql(nodes)
        case "HTTP (JSON)":
            return await _by_http(nodes, count)
        case "folders":
            return await _by_folder(nodes, folder, count)
        case "webhooks":
            return await _by_webhook(nodes, count)
    return await _by_app(nodes, count)


async def _by_sql(nodes: NodesAndSites) -> dict[str, Described]:
    with psycopg.connect(nodes.b.store.url, row_factory=psycopg.rows.dict_row) as connection:
        rows = connection.execute("SELECT * FROM semq_receive('', 1000)").fetchall()
        for row in rows:
            connection.execute("SELECT semq_done(%s)", (row["bref"],))
    await until(lambda: not nodes.b.engine.handover.out)
    return {bytes(row["payload"]).decode(): row for row in rows}


async def _by_http(nodes: NodesAndSites, count: int) -> dict[str, Described]:
    program = await nodes.site_b.program("receive")
    found: dict[str, Described] = {}
    while len(found) < count:
        answer = await program.post("/inbox/receive", params={"wait_s": 30})
        for document in answer.json()["documents"]:
            found[b64decode(document["body_base64"]).decode()] = document
            await program.post(f"/inbox/leases/{document['lease']}/ack")
    return found


async def _by_app(nodes: NodesAndSites, count: int) -> dict[str, Described]:
    found: dict[str, Described] = {}
    async with Client(url_of(nodes.b)) as client, client.receive() as documents:
        async for document in documents:
            described = document.described() | {"headers": document.headers}
            found[document.payload.decode()] = described
            await document.ack()
            if len(found) == count:
                break
    return found


async def _by_folder(nodes: NodesAndSites, folder: Path, count: int) -> dict[str, Described]:
    section = FolderSection(path=folder, send=False)
    async with _companion(folders.serve, nodes.b, folders=[section]):
        await until(lambda: len(_files(folder)) == count and waiting_at(nodes) == 0)
    return {path.read_text("utf-8"): _note_of(path) for path in _files(folder)}


def _note_of(path: Path) -> Described:
    note: Described = json.loads(path.with_name(f"{path.name}{NOTE}").read_text("utf-8"))
    return note


def _files(folder: Path) -> list[Path]:
    """Return the received documents without their notes."""
    files = (path for path in (folder / "in").rglob("*") if path.is_file())
    return [path for path in files if not path.name.startswith(".") and not path.name.endswith(NOTE)]


async def _by_webhook(nodes: NodesAndSites, count: int) -> dict[str, Described]:
    with serving() as hook:
        secret = SecretStr(f"whsec_{b64encode(bytes(32)).decode()}")
        section = WebhookSection(name="matrix", url=hook.url, secret=secret, allow_private=True)
        async with _companion(webhooks.serve, nodes.b, webhooks=[section]):
            await until(lambda: len(hook.received) >= count and waiting_at(nodes) == 0)
        return {request.body.decode("utf-8"): request.headers for request in hook.received}


@asynccontextmanager
async def _companion(
    serve: Callable[[Settings, str, Any, SectionStates], Awaitable[None]], node: LocalNode, **sections: Any
) -> AsyncIterator[None]:
    """Run the folders or the webhooks of a node in this process."""
    settings = node.settings.model_copy(update=sections)
    states = SectionStates(lambda line: None, SystemClock())
    task = asyncio.ensure_future(serve(settings, url_of(node), asyncio.Event().wait, states))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
