"""Documents in the application's own transaction: sent if it commits, done if it does."""

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from semq.app import AppKey, Client, RefusedByNode, done, receive, send
from semq.umx_t.errors import BadAppKey
from tests.app.network import Network


@pytest.fixture
def engine(network: Network) -> Iterator[Engine]:
    url = network.sender.database
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS orders (number text)"))
    yield engine
    engine.dispose()


async def test_a_document_travels_if_the_transaction_commits(engine: Engine, receiver: Client) -> None:
    kept, dropped = str(uuid4()), str(uuid4())

    def write(key: str) -> Connection:
        connection = engine.connect()
        connection.execute(text("INSERT INTO orders VALUES (:key)"), {"key": key})
        send(connection, "56001/sql", key.encode(), app_key=AppKey("trade", "order", "", key), headers={"own": "yes"})
        return connection

    with write(dropped) as connection:
        connection.rollback()
    with write(kept) as connection:
        connection.commit()
    async with receiver.receive("sql", idle_s=30) as documents:
        document = await anext(documents)
        await document.ack()
    assert (document.payload.decode(), document.app_key.key, document.headers) == (kept, kept, {"own": "yes"})


async def test_a_document_is_done_if_the_transaction_commits(engine: Engine, sender: Client) -> None:
    sent = await sender.send("10008/sql", b"to be read with SQL", app_key="a/b/c/d")

    def take(commit: bool) -> list[str]:
        with engine.connect() as connection:
            found = list(receive(connection, "sql", at_most=10))
            for number, document in found:
                assert document.is_intact
                assert document.app_key == AppKey(*"abcd")
                done(connection, number)
            if commit:
                connection.commit()
        return [document.lk0 for _, document in found]

    await sender.wait_for_delivery(sent.lk0)
    assert await asyncio.to_thread(take, False) == [sent.lk0]
    assert await asyncio.to_thread(take, True) == [sent.lk0]
    assert await asyncio.to_thread(take, True) == []
    counts = "SELECT (SELECT count(*) FROM tb_0030_done), (SELECT count(*) FROM tb_0030 WHERE lk0 = :lk0)"

    def is_over() -> bool:
        with engine.connect() as connection:
            row = connection.execute(text(counts), {"lk0": sent.lk0}).one()
        return tuple(row) == (0, 0)

    async with asyncio.timeout(60):
        while not await asyncio.to_thread(is_over):  # noqa: ASYNC110 - the node takes it, and cleanup tells nobody
            await asyncio.sleep(0.05)
    events = [line["event"] for line in (await sender.request("msg.trace", {"id": sent.lk0}))["events"]]
    assert "DONE" in events


async def test_what_amqp_cannot_carry_is_refused_and_stops_nobody(engine: Engine, sender: Client) -> None:
    with engine.begin() as connection:
        for content_type in ("text/plain", "x" * 300, "text/plain"):
            send(connection, "56001/nobody", b"", app_key=AppKey("a", "b", "c", "carried"), content_type=content_type)
    refused = "SELECT reason_code FROM tb_0031_submit WHERE content_type LIKE 'xx%'"

    def reason() -> str | None:
        with engine.connect() as connection:
            return connection.execute(text(refused)).scalar()

    async with asyncio.timeout(60):
        while await asyncio.to_thread(reason) is None:  # noqa: ASYNC110 - nobody is told of a refused row
            await asyncio.sleep(0.05)
        assert await asyncio.to_thread(reason) == "SEMQ-1102"
        while await sender.request("msg.list", {"key": "carried", "side": "outbound"}):  # noqa: ASYNC110 - cleanup
            await asyncio.sleep(0.05)  # of the two others, which have been delivered


@pytest.mark.parametrize(
    ("target", "attributes", "code"),
    [
        ("not an address", {}, "SEMQ-1101"),
        ("56001", {"save_fwd": 7}, "SEMQ-1102"),
        ("56001", {"app_key": "order"}, "SEMQ-1103"),
        ("56001", {"order_key": "k", "save_fwd": 2}, "SEMQ-1104"),
    ],
)
def test_bad_input_is_refused_at_once(engine: Engine, target: str, attributes: dict[str, object], code: str) -> None:
    with engine.connect() as connection, pytest.raises(RefusedByNode) as caught:
        send(connection, target, b"x", **attributes)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_a_slash_in_a_part_of_an_app_key_is_refused(engine: Engine) -> None:
    with engine.connect() as connection, pytest.raises(BadAppKey):
        send(connection, "56001", b"x", app_key=AppKey("a/b", "c", "d", "e"))


def test_what_is_not_waiting_cannot_be_done(engine: Engine) -> None:
    with engine.connect() as connection, pytest.raises(RefusedByNode) as caught:
        done(connection, 4711)
    assert caught.value.code == "SEMQ-3021"


def test_other_errors_of_the_database_stay_what_they_are(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.execute(text("SET TRANSACTION READ ONLY"))
        with pytest.raises(DBAPIError):
            send(connection, "56001", b"x")
