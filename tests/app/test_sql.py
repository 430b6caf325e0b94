"""Documents in the application's own transaction, with all attributes and in pieces."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from local_node.node import LocalNode
from semq.app import AppKey, Client, Document, RefusedByNode, done, park, receive, send, status
from semq.umx_t.attributes import ARGUMENTS, ATTRIBUTES, Attribute
from semq.umx_t.errors import BadAppKey
from semq.umx_t.headers import USER_HEADERS_MAX
from semq.umx_t.pieces import AFTER_PIECES_MS, PIECE_BYTES
from tests.app.network import Network
from tests.local_node.pieces.test_transfer import (
    body_of,
    confirming,
    counted,
    is_clean,
    local,
    published,
    sealing_nodes,
)
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import PATIENCE_S, until

# Columns of the view ``semq_inbox`` that are not named in the table of attributes
NOT_ATTRIBUTES = {*"bref received_at size payload envelope pieces app_domain app_type app_subtype".split()}
SIZE = 6 * PIECE_BYTES + 5  # size of a document in pieces


@pytest.fixture
def engine(network: Network) -> Iterator[Engine]:
    url = network.sender.database
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS orders (number text)"))
    yield engine
    engine.dispose()


async def test_a_document_is_sent_only_if_the_transaction_commits(engine: Engine, receiver: Client) -> None:
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
    async with receiver.receive("sql", idle_s=PATIENCE_S) as documents:
        document = await anext(documents)
        await document.ack()
    assert (document.payload.decode(), document.app_key.key, document.headers) == (kept, kept, {"own": "yes"})


async def test_a_document_is_done_only_if_the_transaction_commits(engine: Engine, sender: Client) -> None:
    sent = await sender.send("10008/sql", b"to be read with SQL", app_key="a/b/c/d")
    async with sender.receive("sql") as documents:
        by_client = await anext(documents)
        await by_client.requeue()

    def receive_all(commit: bool) -> list[str]:
        with engine.connect() as connection:
            rows = list(receive(connection, "sql", at_most=10))
            for number, document in rows:
                assert document.is_intact
                assert document.app_key == AppKey(*"abcd")
                assert (document.redelivered, document.source) == (True, by_client.source)
                done(connection, number)
            if commit:
                connection.commit()
        return [document.lk0 for _, document in rows]

    await sender.wait_for_delivery(sent.lk0)
    assert await asyncio.to_thread(receive_all, False) == [sent.lk0]
    assert await asyncio.to_thread(receive_all, True) == [sent.lk0]
    assert await asyncio.to_thread(receive_all, True) == []
    counts = "SELECT (SELECT count(*) FROM tb_0030_done), (SELECT count(*) FROM tb_0030 WHERE lk0 = :lk0)"

    def is_over() -> bool:
        with engine.connect() as connection:
            row = connection.execute(text(counts), {"lk0": sent.lk0}).one()
        return tuple(row) == (0, 0)

    await until(partial(asyncio.to_thread, is_over))
    events = [line["event"] for line in (await sender.request("msg.trace", {"id": sent.lk0}))["events"]]
    assert "DONE" in events


async def test_a_row_that_amqp_cannot_carry_is_refused_and_delays_no_other(engine: Engine, sender: Client) -> None:
    with engine.begin() as connection:
        for header in ("h", "x" * 300, "h"):
            send(connection, "56001/nobody", b"", app_key=AppKey("a", "b", "c", "carried"), headers={header: 1})
    refused = "SELECT reason_code FROM tb_0031_submit WHERE headers::text LIKE '%xxx%'"

    def reason() -> str | None:
        with engine.connect() as connection:
            return connection.execute(text(refused)).scalar()

    async def are_cleaned() -> bool:
        """Return whether both delivered documents are cleaned up; the refused one may be listed."""
        rows = (await sender.request("msg.list", {"key": "carried", "side": "outbound"}))["rows"]
        return len(rows) <= 1

    assert await until(partial(asyncio.to_thread, reason)) == "SEMQ-1102"
    await until(are_cleaned)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM tb_0031_submit"))


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


async def test_attributes_travel_and_are_read_with_the_document(engine: Engine, sender: Client) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    with engine.begin() as connection:
        number = send(
            connection, "10008/attributes", b"{}", app_key="a/b/c/attributes", order_key="o", token=str(uuid4()),
            content_type="application/json", headers={"own": "yes", "n": -3, "x-correlation-id": "c"},
            expires_at=later, priority=7, content_encoding="identity",
        )  # fmt: skip

    def receive_and_park() -> list[tuple[int, Document, Any]]:
        with engine.begin() as connection:
            rows = list(receive(connection, "attributes"))
            for bref, _ in rows:
                row = connection.execute(text("SELECT * FROM semq_inbox WHERE bref = :b"), {"b": bref}).mappings().one()
                park(connection, bref, "cannot be booked")
                return [(bref, rows[0][1], row)]
        return []

    ((bref, document, row),) = await until(partial(asyncio.to_thread, receive_and_park))
    assert (document.content_type, document.headers) == (
        "application/json", {"own": "yes", "n": -3, "x-correlation-id": "c"},
    )  # fmt: skip
    assert (document.priority, document.content_encoding, row["order_key"]) == (7, "identity", "o")
    assert (document.source, row["sender"], document.redelivered) == ("1.10008", "", False)
    assert timedelta(0) <= row["received_at"] - document.submitted_at < timedelta(hours=1)

    async def is_parked() -> bool:
        rows = (await sender.request("failed.list", {"side": "inbound", "key": "attributes"}))["rows"]
        return bool(rows) and rows[0]["error"] == "cannot be booked"

    await until(is_parked)
    with engine.connect() as connection:
        assert list(receive(connection, "attributes")) == []
        with pytest.raises(RefusedByNode):
            park(connection, bref)
    with engine.connect() as connection:
        result = status(connection, number)
        assert result is not None
        assert (result.lk0, result.state) == (document.lk0, "DELIVERED")
        assert status(connection, 1 << 40) is status(connection, "no such token") is None


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"headers": {"@Token": "T"}}, "SEMQ-1102"),
        ({"headers": {"@Nonsense": 1}}, "SEMQ-1102"),
        ({"headers": {"@SessionKey": "x"}}, "SEMQ-1102"),
        ({"priority": 300}, "SEMQ-1102"),
        ({"content_type": "x" * 256}, "SEMQ-1102"),
        ({"headers": {"note": "x" * 4 * USER_HEADERS_MAX}}, "SEMQ-1105"),
        ({"headers": {"@NotBefore": AFTER_PIECES_MS}}, "SEMQ-1102"),
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "SEMQ-1206"),
    ],
)
def test_attributes_that_make_no_sense_are_refused_at_once(engine: Engine, attributes: Any, code: str) -> None:
    with engine.connect() as connection, pytest.raises(RefusedByNode) as caught:
        send(connection, "56001", b"x", **attributes)
    assert caught.value.code == code


@pytest.mark.parametrize("row", ARGUMENTS.values(), ids=lambda row: row.name)
def test_semq_send_takes_each_attribute_as_a_parameter_or_in_its_headers(engine: Engine, row: Attribute) -> None:
    with engine.connect() as connection:  # the submission is not committed
        if row.sql:
            with pytest.raises(RefusedByNode, match=f"{row.name} is a parameter"):
                send(connection, "56001", b"x", headers={row.name: None})
        else:
            assert send(connection, "56001", b"x", headers={row.name: None})


def test_sql_has_the_parameters_and_columns_of_the_table_of_attributes(engine: Engine) -> None:
    with engine.connect() as connection:
        arguments = connection.execute(text("SELECT proargnames FROM pg_proc WHERE proname = 'semq_send'")).scalar_one()
        columns = set(connection.execute(text("SELECT * FROM semq_inbox LIMIT 0")).keys())
    assert {*arguments} == {row.sql for row in ATTRIBUTES if row.sql} | {"payload"}
    assert columns - NOT_ATTRIBUTES == {row.inbox for row in ATTRIBUTES if row.inbox}


def test_only_a_waiting_document_can_be_finished(engine: Engine) -> None:
    with engine.connect() as connection, pytest.raises(RefusedByNode) as caught:
        done(connection, 4711)
    assert caught.value.code == "SEMQ-3021"


def test_other_errors_of_the_database_are_raised_unchanged(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.execute(text("SET TRANSACTION READ ONLY"))
        with pytest.raises(DBAPIError):
            send(connection, "56001", b"x")


async def in_pieces(inprocess: InProcess) -> tuple[LocalNode, LocalNode]:
    """Start two nodes; return them when a document in pieces waits at the second one."""
    hub = await inprocess.hub()
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port)
    await linked(a, b)
    assert await published(await confirming(inprocess, a), "56001", body_of(SIZE), AppKey="trade/film//F1")
    await until(lambda: counted(b, "SELECT count(*) FROM tb_0030 WHERE target_user = '' AND app_status = 310"))
    return a, b


async def test_a_document_in_pieces_is_received_by_sql_and_leaves_nothing(inprocess: InProcess) -> None:
    a, b = await in_pieces(inprocess)
    url = b.store.url

    def receive_all(commit: bool) -> list[tuple[str, int]]:
        return receive_documents(url, commit)

    assert await asyncio.to_thread(receive_all, False) == [("F1", SIZE)]
    assert await asyncio.to_thread(receive_all, True) == [("F1", SIZE)]
    assert await asyncio.to_thread(receive_all, True) == []
    await until(lambda: is_clean(a) and is_clean(b))


def receive_documents(url: str | None, commit: bool) -> list[tuple[str, int]]:
    assert url is not None
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool)
    with engine.connect() as connection:
        documents = []
        for number, document in receive(connection, at_most=10):
            assert sha256(b"".join(document.blocks())).hexdigest() == document.digest
            assert document.is_intact
            documents.append((document.app_key.key, document.size))
            done(connection, number)
        if commit:
            connection.commit()
    return documents


async def test_documents_behind_a_refused_one_of_their_order_are_received_by_sql(inprocess: InProcess) -> None:
    """56001 refuses the second document because of its size, and the fourth, which has an order of its own."""
    hub, a = await inprocess.pair()
    b = await local(inprocess, "56001", hub.port, "max_document_bytes = 100\n")
    await linked(a, b)
    with psycopg.connect(str(a.store.url), autocommit=True) as connection:
        for key, size, order_key in (("1", 1, "k"), ("2", 101, "k"), ("3", 1, "k"), ("4", 101, "o"), ("5", 1, "o")):
            command = "SELECT semq_send('56001', %s::bytea, %s, order_key => %s)"
            connection.execute(command, (b"x" * size, f"a/b/c/{key}", order_key))
    await until(lambda: counted(b, "SELECT count(*) FROM semq_inbox WHERE app_key IN ('1', '5')") == 2)
    await until(lambda: counted(b, "SELECT count(*) FROM tb_0030 WHERE order_key = 'k'") == 3)
    received = await asyncio.to_thread(receive_documents, b.store.url, True)
    assert sorted(received) == [("1", 1), ("5", 1)]
    await until(lambda: counted(b, "SELECT count(*) FROM semq_inbox") == 1)
    assert await asyncio.to_thread(receive_documents, b.store.url, True) == [("3", 1)]
    await until(lambda: is_clean(b))


async def test_sealed_documents_have_the_digest_of_their_payload(inprocess: InProcess) -> None:
    a, b = await sealing_nodes(inprocess)
    channel = await confirming(inprocess, a)
    for key, size in (("large", 350_000), ("small", 30_000)):
        assert await published(channel, "56001", body_of(size), AppKey=f"a/b/c/{key}", Encrypt=1)
    await until(lambda: counted(b, "SELECT count(*) FROM tb_0030 WHERE target_user = '' AND app_status = 310") == 2)
    assert counted(b, "SELECT count(*) FROM tb_0030 WHERE target_user = '_pieces'") == 4
    assert sorted(await asyncio.to_thread(receive_documents, b.store.url, True)) == [
        ("large", 350_000),
        ("small", 30_000),
    ]
    await until(lambda: is_clean(a) and is_clean(b))


async def test_a_document_whose_pieces_differ_is_parked_and_pieces_are_in_no_inbox(inprocess: InProcess) -> None:
    _, b = await in_pieces(inprocess)
    url = b.store.url

    def damage() -> None:
        with psycopg.connect(url) as connection:
            connection.execute(
                "UPDATE tb_0030_body SET envelope = overlay("
                "  envelope PLACING '\"AAAA' FROM position('\"digest\":'::bytea IN envelope) + 9)"
                " WHERE bref = (SELECT min(bref) FROM tb_0030 WHERE target_user = '_pieces')"
            )

    def receive_all(user: str) -> int:
        engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool)
        with engine.begin() as connection:
            return len(list(receive(connection, user)))

    await asyncio.to_thread(damage)
    assert await asyncio.to_thread(receive_all, "") == 0
    admin = await inprocess.client(b)

    async def error() -> str:
        (row,) = (await ask(admin, "failed.list", {}))["result"]["rows"] or [{"error": ""}]
        return str(row["error"])

    assert str(await until(error)).startswith("SEMQ-1232")
    with pytest.raises(RefusedByNode, match="SEMQ-1101"):
        await asyncio.to_thread(receive_all, "_pieces")
    (row,) = (await ask(admin, "failed.list", {}))["result"]["rows"]
    assert (row["size"], row["pieces"]["count"]) == (SIZE, 7)

    async def on_page() -> list[int]:
        return [row["size"] for row in (await ask(admin, "failed.list", {}))["result"]["rows"]]

    assert await until(on_page) == [SIZE]
    assert (await ask(admin, "failed.remove", {"ids": [row["id"]]}))["result"] == {"removed": 1}
    await until(lambda: is_clean(b))  # its pieces, too
