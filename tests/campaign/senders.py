"""Doors at which applications hand over documents: each class is a program of one lane, written as users write them.

``hand`` gives documents to the node and returns its answer: CONFIRMED, or REFUSED with a reason. It raises ``InDoubt``
if the connection was lost before the answer, or the node refused for now: the lane then repeats the act.
"""

import asyncio
import json
from asyncio.subprocess import PIPE
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import aio_pika
import amqp.exceptions  # type: ignore[import-untyped]
import httpx
import kombu.exceptions
import pika
import pika.exceptions
import sqlalchemy
from aio_pika.exceptions import ChannelClosed, DeliveryError
from celery import Celery
from sqlalchemy.exc import DBAPIError

from semq.app import Client, RefusedByNode, sql
from semq.errors import SemqError
from semq.folders.layout import read_note
from semq.moments import EPOCH
from tests.campaign.notebook import CONFIRMED, REFUSED, Handed
from tests.campaign.receivers import HEARTBEAT_S, LOST, connect, drop
from tests.interop import amqplib
from tests.waiting import until

AMQPLIB = Path(__file__).with_name("amqplib_sender.js")
# Longest wait for the answer to a submission. It is long, because the machine may be busy.
ANSWER_S = 60.0
INTERNAL_ERROR = 541  # the reply code of a document that is refused for now
LOST_BY_CELERY = (amqp.exceptions.AMQPError, amqp.exceptions.MessageNacked, kombu.exceptions.KombuError, OSError)
BYTES_PER_S = 1 << 20  # a slow machine takes huge documents so fast
DOUBT_S_MAX = 0.02  # longest wait for the answer of a document that is left in doubt


class InDoubt(Exception):  # noqa: N818  (a state, not an error)
    """Whether the node has accepted the documents is unknown."""


class DoorAnswer(NamedTuple):
    word: str  #: CONFIRMED, REFUSED
    lk0: str = ""
    reason: str = ""


class SenderProgram:
    """A door of one lane."""

    can: frozenset[str]  #: traits of documents that the door takes

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    async def hand(self, documents: Sequence[Handed]) -> DoorAnswer:
        raise NotImplementedError

    async def close(self) -> None:
        """End the connection."""

    def patience_s(self, document: Handed) -> float:
        return self._chance.uniform(0, DOUBT_S_MAX) if "doubtful" in document.traits else answer_s(document)


def answer_s(document: Handed) -> float:
    """Return the longest wait for the answer about a document."""
    return ANSWER_S + document.size / BYTES_PER_S


def headers_of(document: Handed) -> dict[str, Any]:
    """Return the headers of a document at the AMQP doors."""
    headers: dict[str, Any] = {
        **document.headers, "@SaveFwd": document.save_fwd, "@Ack2": document.ack2, "@Token": document.token,
        "@AppKey": document.app_key,
    }  # fmt: skip
    if document.order_key:
        headers |= {"@Fixed": 1} if document.order_key == "fixed" else {"@OrderKey": document.order_key}
    if "sealed" in document.traits:
        headers["@Encrypt"] = 1
    if document.not_before:
        headers["@NotBefore"] = document.not_before
    if document.expires_at:
        headers["@ExpiresAt"] = document.expires_at
    return headers


AMQP = frozenset(
    "classes order fixed sealed priority user group users scheduled expiring late cancel repeat large huge unknown"
    " poison doubtful rich".split()
)


class AioPikaSender(SenderProgram):
    """aio-pika with publisher confirms."""

    can = AMQP

    def __init__(self, chance: Random, url: str) -> None:
        super().__init__(chance)
        self._url = url
        self._connection: Any = None
        self._channel: Any = None

    async def hand(self, documents: Sequence[Handed]) -> DoorAnswer:
        (document,) = documents
        message = aio_pika.Message(
            document.body, headers=headers_of(document), content_type="application/octet-stream",
            priority=document.priority, delivery_mode=2, correlation_id=f"c-{document.number}",
        )  # fmt: skip
        try:
            if self._channel is None or self._channel.is_closed:
                await drop(self._connection)
                self._connection = await connect(self._url)
                self._channel = await self._connection.channel(publisher_confirms=True)
            exchange = await self._channel.get_exchange("semq", ensure=False)
            await exchange.publish(message, document.target, mandatory=False, timeout=self.patience_s(document))
        except ChannelClosed as error:
            return DoorAnswer(REFUSED, reason=str(error))
        except DeliveryError as error:  # nacked: refused for now
            raise InDoubt from error
        except LOST as error:
            await self.close()
            raise InDoubt from error
        return DoorAnswer(CONFIRMED)

    async def close(self) -> None:
        await drop(self._connection)
        self._connection = self._channel = None


class PikaSender(SenderProgram):
    """pika in a thread: a transaction for a batch, else publisher confirms."""

    can = AMQP - {"doubtful"} | {"tx"}

    def __init__(self, chance: Random, host: str, port: int, user: str, password: str) -> None:
        super().__init__(chance)
        self._parameters = pika.ConnectionParameters(
            host, port, credentials=pika.PlainCredentials(user, password), heartbeat=HEARTBEAT_S,
            blocked_connection_timeout=ANSWER_S, socket_timeout=10, stack_timeout=15,
        )  # fmt: skip
        self._connection: pika.BlockingConnection | None = None

    async def hand(self, documents: Sequence[Handed]) -> DoorAnswer:
        return await asyncio.to_thread(self._hand, documents)

    def _hand(self, documents: Sequence[Handed]) -> DoorAnswer:
        try:
            if self._connection is None or self._connection.is_closed:
                self._connection = pika.BlockingConnection(self._parameters)
            channel = self._connection.channel()
            if len(documents) > 1:
                channel.tx_select()
            else:
                channel.confirm_delivery()
            for document in documents:
                properties = pika.BasicProperties(
                    headers=headers_of(document), content_type="application/octet-stream", delivery_mode=2,
                    priority=document.priority or None, correlation_id=f"c-{document.number}",
                )  # fmt: skip
                channel.basic_publish("semq", document.target, document.body, properties)
            if len(documents) > 1:
                channel.tx_commit()
            channel.close()
        except pika.exceptions.ChannelClosedByBroker as error:
            if error.reply_code == INTERNAL_ERROR:
                raise InDoubt from error
            return DoorAnswer(REFUSED, reason=error.reply_text)
        except (pika.exceptions.AMQPError, OSError) as error:
            self._drop()
            raise InDoubt from error
        return DoorAnswer(CONFIRMED)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(pika.exceptions.AMQPError, OSError):
                connection.close()

    async def close(self) -> None:
        await asyncio.to_thread(self._drop)


class CelerySender(SenderProgram):
    """The producer of a Celery application, with publisher confirms, in a thread."""

    can = AMQP - {"doubtful"}

    def __init__(self, chance: Random, url: str) -> None:
        super().__init__(chance)
        self._application = Celery("campaign", broker=url, set_as_current=False)
        self._application.conf.broker_transport_options = {
            "confirm_publish": True, "connect_timeout": ANSWER_S, "read_timeout": ANSWER_S, "write_timeout": ANSWER_S,
        }  # fmt: skip
        self._producer: Any = None

    async def hand(self, documents: Sequence[Handed]) -> DoorAnswer:
        (document,) = documents
        return await asyncio.to_thread(self._hand, document)

    def _hand(self, document: Handed) -> DoorAnswer:
        try:
            if self._producer is None:
                self._producer = self._application.amqp.Producer(self._application.connection_for_write())
            self._producer.publish(
                document.body, exchange="semq", routing_key=document.target, headers=headers_of(document),
                content_type="application/octet-stream", content_encoding="binary", delivery_mode=2,
                priority=document.priority, correlation_id=f"c-{document.number}", confirm_timeout=answer_s(document),
            )  # fmt: skip
        except amqp.exceptions.ChannelError as error:
            self._drop()
            if error.reply_code == INTERNAL_ERROR:
                raise InDoubt from error
            return DoorAnswer(REFUSED, reason=str(error.reply_text))
        except (
            amqp.exceptions.AMQPError,
            amqp.exceptions.MessageNacked,
            kombu.exceptions.KombuError,
            OSError,
        ) as error:
            self._drop()
            raise InDoubt from error
        return DoorAnswer(CONFIRMED)

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(*LOST_BY_CELERY):
                producer.connection.release()

    async def close(self) -> None:
        await asyncio.to_thread(self._drop)


class AmqplibSender(SenderProgram):
    """amqplib of Node.js with publisher confirms, in a process that reads lines (``amqplib_sender.js``)."""

    can = AMQP - {"rich", "doubtful", "huge"}  # its numbers are floating-point

    def __init__(self, chance: Random, url: str) -> None:
        super().__init__(chance)
        self._url = url
        self._process: asyncio.subprocess.Process | None = None

    async def hand(self, documents: Sequence[Handed]) -> DoorAnswer:
        (document,) = documents
        options = {
            "headers": headers_of(document), "contentType": "application/octet-stream", "persistent": True,
            "priority": document.priority, "correlationId": f"c-{document.number}",
        }  # fmt: skip
        act = {"target": document.target, "body": b64encode(document.body).decode(), "options": options}
        try:
            async with asyncio.timeout(answer_s(document)):
                answer = await self._ask(json.dumps(act))
        except (TimeoutError, OSError, ValueError) as error:
            await self.close()
            raise InDoubt from error
        if answer["word"] != "in doubt":
            return DoorAnswer(answer["word"], reason=answer["reason"])
        raise InDoubt from ConnectionError(answer["reason"])

    async def _ask(self, line: str) -> dict[str, str]:
        """Raises ValueError if the process has ended."""
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                "node", AMQPLIB, self._url, cwd=await asyncio.to_thread(amqplib.installed), stdin=PIPE, stdout=PIPE
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line.encode() + b"\n")
        await process.stdin.drain()
        answer: dict[str, str] = json.loads(await process.stdout.readline())
        return answer

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()


class AppSender(SenderProgram):
    """``semq.app.Client``."""

    can = AMQP - {"rich"}

    def __init__(self, chance: Random, url: Callable[[], str]) -> None:
        super().__init__(chance)
        self._url = url
        self._client: Client | None = None

    async def hand(self, documents: Sequence[Handed]) -> DoorAnswer:
        (document,) = documents
        self._client = self._client or Client(self._url(), patience_s=ANSWER_S)
        try:
            sent = await self._client.send(
                document.target, document.body, app_key=document.app_key, save_fwd=document.save_fwd,
                ack2=bool(document.ack2), order_key="" if document.order_key == "fixed" else document.order_key,
                fixed=document.order_key == "fixed", encrypt="sealed" in document.traits, priority=document.priority,
                expires_at=document.expires_at, not_before=document.not_before, headers=document.headers,
                token=document.token, content_type="application/octet-stream", timeout_s=self.patience_s(document),
            )  # fmt: skip
        except RefusedByNode as error:
            return DoorAnswer(REFUSED, reason=str(error))
        except (SemqError, OSError) as error:
            await self.close()
            raise InDoubt from error
        return DoorAnswer(CONFIRMED, sent.lk0)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(SemqError, OSError):
                await client.close()


class SqlSender(SenderProgram):
    """``semq.app.sql`` in the application's own transaction."""

    can = frozenset(
        "classes order sealed priority user group users scheduled expiring late cancel repeat unknown poison tx"
        " rollback".split()
    )

    def __init__(self, chance: Random, url: Callable[[], str]) -> None:
        super().__init__(chance)
        self._url = url
        self._engine: sqlalchemy.Engine | None = None

    async def hand(self, documents: Sequence[Handed]) -> DoorAnswer:
        return await asyncio.to_thread(self._hand, documents)

    def _hand(self, documents: Sequence[Handed]) -> DoorAnswer:
        number = 0
        try:
            if self._engine is None:
                self._engine = sqlalchemy.create_engine(self._url(), pool_size=1, max_overflow=0)
            with self._engine.connect() as connection, connection.begin() as transaction:
                for document in documents:
                    number = sql.send(
                        connection, document.target, document.body, app_key=document.app_key,
                        save_fwd=document.save_fwd, ack2=bool(document.ack2), order_key=document.order_key,
                        token=document.token, content_type="application/octet-stream", headers=document.headers,
                        encrypt="sealed" in document.traits, priority=document.priority,
                        expires_at=_moment(document.expires_at), not_before=_moment(document.not_before),
                    )  # fmt: skip
                if "rollback" in documents[0].traits:
                    transaction.rollback()
                    return DoorAnswer(REFUSED, reason="rolled back")
        except RefusedByNode as error:
            return DoorAnswer(REFUSED, reason=str(error))
        except (DBAPIError, OSError) as error:
            self._drop()
            raise InDoubt from error
        return DoorAnswer(CONFIRMED, f"sql-{number}")

    def _drop(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    async def close(self) -> None:
        await asyncio.to_thread(self._drop)


class HttpSender(SenderProgram):
    """The HTTP API."""

    can = AMQP - {"rich"}

    def __init__(self, chance: Random, url: str, token: str) -> None:
        super().__init__(chance)
        self._client = httpx.AsyncClient(
            base_url=f"{url}/api/v1", headers={"authorization": f"Bearer {token}"}, timeout=ANSWER_S, trust_env=False
        )

    async def hand(self, documents: Sequence[Handed]) -> DoorAnswer:
        (document,) = documents
        headers = {
            "SEMQ-App-Key": document.app_key, "Idempotency-Key": document.token,
            "Content-Type": "application/octet-stream",
            "SEMQ-Save-Fwd": str(document.save_fwd), "SEMQ-Ack2": "true" if document.ack2 else "false",
        }  # fmt: skip
        if document.order_key:
            headers |= (
                {"SEMQ-Fixed": "true"} if document.order_key == "fixed" else {"SEMQ-Order-Key": document.order_key}
            )
        if "sealed" in document.traits:
            headers["SEMQ-Encrypt"] = "true"
        numbers = {"Priority": document.priority, "Not-Before": document.not_before, "Expires-At": document.expires_at}
        headers |= {f"SEMQ-{name}": str(value) for name, value in numbers.items() if value}
        headers |= {f"SEMQ-Header-{name}": str(value) for name, value in document.headers.items()}
        try:
            async with asyncio.timeout(self.patience_s(document)):
                answer = await self._client.post(
                    "/documents", params={"target": document.target}, content=document.body, headers=headers
                )
        except (httpx.HTTPError, TimeoutError) as error:
            raise InDoubt from error
        if answer.status_code in (200, 201):
            return DoorAnswer(CONFIRMED, answer.json()["lk0"])
        if answer.status_code >= 500 or answer.status_code in (408, 429):
            raise InDoubt from httpx.HTTPError(f"{answer.status_code}: {answer.text[:300]}")
        return DoorAnswer(REFUSED, reason=answer.text[:300])

    async def close(self) -> None:
        await self._client.aclose()


class FolderSender(SenderProgram):
    """A folder of the node: the document is a file."""

    can = frozenset("user group users unknown poison folder".split())

    def __init__(self, chance: Random, folder: Path, using: asyncio.Lock) -> None:
        """``using``: held while the folder is away."""
        super().__init__(chance)
        self._folder, self._using = folder, using

    def note_in(self, folder: str, document: Handed) -> tuple[Path, dict[str, Any]] | None:
        """Return the file of a document in ``sent`` or ``failed``, and its note; None if there is none."""
        for note in (self._folder / folder).rglob(f"*{document.number}.semq.json"):
            file = note.with_name(note.name.removesuffix(".semq.json"))
            if file.name == str(document.number):
                return file, dict(read_note(file) or {})
        return None

    async def hand(self, documents: Sequence[Handed]) -> DoorAnswer:
        (document,) = documents
        place = document.target.removeprefix("1.").replace("/", "@")
        file = self._folder / "out" / place / document.kind / str(document.number)
        async with self._using:
            await asyncio.to_thread(_write_file, file, document.body)

        def answer() -> DoorAnswer | None:
            with suppress(FileNotFoundError):  # the folder is unmounted while it is read
                if (found := self.note_in("sent", document)) is not None and found[0].exists():
                    return DoorAnswer(CONFIRMED, str(found[1].get("lk0", "")))
                if (found := self.note_in("failed", document)) is not None and found[0].exists():
                    return DoorAnswer(REFUSED, reason=str(found[1].get("reason", "")))
            return None

        result: DoorAnswer = await until(lambda: asyncio.to_thread(answer), 1e9)
        return result


def _write_file(file: Path, body: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    hidden = file.with_name(f".{file.name}")
    hidden.write_bytes(body)
    hidden.rename(file)


def _moment(milliseconds: int) -> datetime | None:
    return EPOCH + timedelta(milliseconds=milliseconds) if milliseconds else None
