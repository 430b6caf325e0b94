"""Applications that receive documents, one class for each door; all write into the notebook before they acknowledge."""

import asyncio
import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from random import Random
from time import time
from typing import Any
from urllib.parse import unquote

import aio_pika
import httpx
import sqlalchemy
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import AMQPError
from sqlalchemy.exc import DBAPIError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn import Config, Server

from semq.app import Client, RefusedByNode, sql
from semq.errors import SemqError
from semq.folders.layout import NOTE, note_of, read_note
from tests.campaign.notebook import Handed, Notebook, NotedReceipt, number_of

RETRY_S = 0.2
POLL_S = 0.3
PREFETCH = 24
HEARTBEAT_S = 4
CONNECT_S = 10.0
LOST = (AMQPError, OSError, asyncio.TimeoutError, RuntimeError)  # RuntimeError: aio-pika on a closed channel
REQUEUED_SHARE = 0.02  # share of deliveries that are returned
ACK, REJECT, REQUEUE = "ack", "reject", "requeue"


async def connect(url: str) -> AbstractConnection:
    """Open a connection of aio-pika that does not reconnect by itself."""
    return await aio_pika.connect(f"{url}?heartbeat={HEARTBEAT_S}", timeout=CONNECT_S)


async def drop(connection: AbstractConnection | None) -> None:
    if connection is not None:
        with suppress(*LOST, asyncio.CancelledError):
            await asyncio.wait_for(connection.close(), 2.0)


class ReceiverProgram:
    """An application that receives the documents to one address."""

    def __init__(self, address: str, notebook: Notebook, chance: Random) -> None:
        self.address = address
        self._notebook = notebook
        self._chance = chance
        self.is_nacking = False  #: return each delivery
        self.can_return = True  #: the door can take documents back

    async def run(self) -> None:
        """Receive until cancelled."""
        while True:
            with suppress(*LOST, SemqError, DBAPIError, httpx.HTTPError):
                await self._session()
            await asyncio.sleep(RETRY_S)

    async def _session(self) -> None:
        raise NotImplementedError

    def _take(self, lk0: str, body: bytes, *, flagged: bool, attributes: Mapping[str, Any], at: float = 0.0) -> str:
        """Write a delivery into the notebook; return the answer for the node."""
        number = number_of(body)
        document = self._notebook.documents.get(number)
        answer = ACK
        if not self.can_return:
            answer = ACK
        elif document is not None and "poison" in document.traits:
            answer = REJECT
        elif self.is_nacking or self._chance.random() < REQUEUED_SHARE:
            answer = REQUEUE
        digest = sha256(body).hexdigest()
        fault = _difference(document, {"digest": digest, "has_mark": True, **attributes}) if document else ""
        source = str(attributes["source"]).partition("/")[0]
        self._notebook.receive(
            NotedReceipt(number, self.address, lk0, digest, flagged, answer, at or time(), fault, source)
        )
        return answer


def _difference(document: Handed, attributes: Mapping[str, Any]) -> str:
    """Return how the attributes of a delivery differ from those of the document; empty if they do not."""
    expected: dict[str, Any] = {
        "app_key": document.app_key, "order_key": document.order_key, "digest": document.digest, "has_mark": True,
    }  # fmt: skip
    if document.order_key == "fixed" or "folder" in document.door:
        del expected["order_key"]
    if document.priority:
        expected["priority"] = document.priority
    if "folder" not in document.door:
        expected |= {"content_type": "application/octet-stream", **document.headers}
    wrong = [
        f"{name}={attributes[name]!r} for {value!r}"
        for name, value in expected.items()
        if name in attributes and attributes[name] != value
    ]
    missing = [name for name in document.headers if attributes.get("is_complete") and name not in attributes]
    return ", ".join([*wrong, *(f"no {name}" for name in missing if "folder" not in document.door)])


class AioPikaReceiver(ReceiverProgram):
    """A consumer by aio-pika."""

    def __init__(self, address: str, notebook: Notebook, chance: Random, url: str, queue: str) -> None:
        super().__init__(address, notebook, chance)
        self._url, self._queue = url, queue

    async def _session(self) -> None:
        connection = await connect(self._url)
        try:
            channel = await connection.channel(publisher_confirms=False)
            await channel.set_qos(prefetch_count=PREFETCH)
            queue = await channel.get_queue(self._queue, ensure=False)
            closed = asyncio.Event()
            channel.close_callbacks.add(lambda *_: closed.set())
            await queue.consume(self._receive)
            await closed.wait()
        finally:
            await drop(connection)

    async def _receive(self, message: Any) -> None:
        headers = message.headers
        attributes = {
            **headers, "app_key": headers.get("@AppKey"), "order_key": headers.get("@OrderKey", ""),
            "is_complete": True, "priority": message.priority or 0, "content_type": message.content_type,
            "source": headers["@Source"], "digest": headers["@Digest"],
            "has_mark": bool(message.redelivered) == (int(str(headers["@Deliveries"])) > 1),
        }  # fmt: skip
        with suppress(*LOST):
            answer = self._take(
                message.message_id or str(headers["@LK0"]), message.body, flagged=bool(message.redelivered),
                attributes=attributes,
            )  # fmt: skip
            if answer == ACK:
                await message.ack()
            else:
                await message.nack(requeue=answer == REQUEUE)


class AppReceiver(ReceiverProgram):
    """``semq.app.Client``."""

    def __init__(
        self, address: str, notebook: Notebook, chance: Random, url: Callable[[], str], user: str = ""
    ) -> None:
        super().__init__(address, notebook, chance)
        self._url, self._user = url, user

    async def _session(self) -> None:
        async with Client(self._url(), patience_s=20.0) as client, client.receive(self._user) as documents:
            async for document in documents:
                attributes = {
                    **document.headers, "app_key": str(document.app_key), "order_key": document.order_key,
                    "priority": document.priority, "content_type": document.content_type, "is_complete": True,
                    "source": document.source, "digest": document.digest,
                }  # fmt: skip
                answer = self._take(document.lk0, document.payload, flagged=document.redelivered, attributes=attributes)
                settle = {ACK: document.ack, REJECT: document.reject, REQUEUE: document.requeue}[answer]
                with suppress(SemqError):
                    await settle()


class SqlReceiver(ReceiverProgram):
    """``semq.app.sql``: each batch in a transaction, which is sometimes rolled back."""

    def __init__(self, address: str, notebook: Notebook, chance: Random, url: Callable[[], str]) -> None:
        super().__init__(address, notebook, chance)
        self._url = url

    async def _session(self) -> None:
        engine = sqlalchemy.create_engine(self._url(), pool_size=1, max_overflow=0)
        try:
            while True:
                if not await asyncio.to_thread(self._batch, engine):
                    await asyncio.sleep(POLL_S)
        finally:
            engine.dispose()

    def _batch(self, engine: sqlalchemy.Engine) -> int:
        """Take up to eight documents; note them as received when the commit is certain."""
        taken = 0
        with engine.connect() as connection, connection.begin():
            for number, document in list(sql.receive(connection, at_most=8)):
                taken += 1
                attributes = {
                    **document.headers, "app_key": str(document.app_key), "order_key": document.order_key,
                    "priority": document.priority, "content_type": document.content_type, "is_complete": True,
                    "source": document.source, "digest": document.digest,
                }  # fmt: skip
                # A lost connection during the commit leaves it open whether the document comes again.
                answer = self._take(document.lk0, document.payload, flagged=True, attributes=attributes)
                with suppress(RefusedByNode):
                    if answer == ACK:
                        sql.done(connection, number)
                    elif answer == REJECT:
                        sql.park(connection, number, "poison")
        return taken


class FolderReceiver(ReceiverProgram):
    """A folder of the node: the application takes each file out of ``in``."""

    def __init__(self, address: str, notebook: Notebook, chance: Random, folder: Path) -> None:
        super().__init__(address, notebook, chance)
        self._arrived = folder / "in"
        self.can_return = False

    async def _session(self) -> None:
        while True:
            await asyncio.to_thread(self._take_files)
            await asyncio.sleep(POLL_S)

    def _take_files(self) -> None:
        files = [
            file for file in self._arrived.rglob("*")
            if file.is_file() and not file.name.startswith(".") and not file.name.endswith(NOTE)
        ]  # fmt: skip
        for moment, file in sorted((file.stat().st_mtime_ns, file) for file in files):
            note = read_note(file)
            if not note:
                continue  # the folder was unmounted meanwhile
            key = note.get("app_key")
            attributes = {**note.get("headers", {}), "is_complete": True, "source": note["source"]} | (
                {"app_key": key} if isinstance(key, str) else {}
            )
            lk0 = str(note.get("lk0", ""))
            self._take(lk0, file.read_bytes(), flagged=True, attributes=attributes, at=moment / 1e9)
            file.unlink()
            note_of(file).unlink(missing_ok=True)


class WebhookReceiver(ReceiverProgram):
    """An HTTP server to which the node posts documents and events."""

    def __init__(self, address: str, notebook: Notebook, chance: Random, port: int) -> None:
        super().__init__(address, notebook, chance)
        self._port = port
        self.status = 0  #: answer to each request; 0: what the document requires
        self.delay_s = 0.0
        self._server = Server(Config(Starlette(routes=[Route("/", self._answer, methods=["POST"])]),
                                     host="127.0.0.1", port=port, log_level="critical", lifespan="off"))  # fmt: skip

    async def run(self) -> None:
        """Serve until cancelled."""
        self._server.config.load()
        self._server.lifespan = self._server.config.lifespan_class(self._server.config)
        await self._server.startup()
        try:
            await asyncio.Event().wait()
        finally:
            await self._server.shutdown()

    async def _answer(self, request: Request) -> Response:
        await asyncio.sleep(self.delay_s)
        body = await request.body()
        if self.status:
            return Response(status_code=self.status)
        if request.headers.get("content-type", "").startswith("application/cloudevents+json"):
            return self._take_event(body)
        headers = {name: unquote(value) for name, value in request.headers.items()}
        attributes = {
            **{name.removeprefix("semq-header-"): text for name, text in headers.items() if "x-check" in name},
            "app_key": headers.get("ce-subject"), "order_key": headers.get("semq-order-key", ""),
            "source": headers["ce-source"].removeprefix("semq:"),
        }  # fmt: skip
        answer = self._take(headers["ce-id"], body, flagged=True, attributes=attributes)
        return Response(status_code={ACK: 204, REJECT: 422, REQUEUE: 503}[answer])

    def _take_event(self, body: bytes) -> Response:
        facts = json.loads(body)["data"]
        note_event(
            self._notebook, facts["app_key"], facts["target"], facts["outcome"] or "DELIVERED", facts["reason"],
        )  # fmt: skip
        return Response(status_code=204)


class HttpReceiver(ReceiverProgram):
    """Long polls of the HTTP API."""

    def __init__(self, address: str, notebook: Notebook, chance: Random, url: str, token: str) -> None:
        super().__init__(address, notebook, chance)
        self._url, self._token = url, token

    async def _session(self) -> None:
        headers = {"authorization": f"Bearer {self._token}"}
        async with httpx.AsyncClient(
            base_url=f"{self._url}/api/v1", headers=headers, timeout=60, trust_env=False
        ) as http:
            while True:
                answer = await http.post("/inbox/receive", params={"wait_s": 5, "max": 5})
                answer.raise_for_status()
                for facts in answer.json()["documents"]:
                    attributes = {
                        **facts["headers"], "app_key": facts["app_key"], "order_key": facts["order_key"],
                        "priority": facts["priority"], "content_type": facts["content_type"], "is_complete": True,
                        "source": facts["source"], "digest": facts["digest"],
                    }  # fmt: skip
                    answer_word = self._take(
                        facts["lk0"], b64decode(facts["body_base64"]), flagged=facts["deliveries"] > 1,
                        attributes=attributes,
                    )  # fmt: skip
                    act = {ACK: "ack", REJECT: "park", REQUEUE: "requeue"}[answer_word]
                    await http.post(f"/inbox/leases/{facts['lease']}/{act}")


def note_event(notebook: Notebook, app_key: str, target: str, outcome: str, reason: str) -> None:
    key = app_key.rpartition("/")[2]
    if key.isdigit():
        notebook.tell_outcome(int(key), target, outcome, reason)


async def follow_events(notebook: Notebook, url: Callable[[], str], is_following: asyncio.Event) -> None:
    """Write the final events of a node into the notebook until cancelled. The queue exists when the event is set."""
    while True:
        with suppress(SemqError, OSError):
            async with Client(url(), patience_s=20.0) as client, client.events(queue="campaign") as events:
                is_following.set()
                async for event in events:
                    if event.is_final:
                        note_event(notebook, str(event.app_key), event.target, event.fate.outcome, event.reason)
        await asyncio.sleep(RETRY_S)
