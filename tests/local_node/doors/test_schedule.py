"""Scheduled documents of a real node: by header, x-delay and SQL; shown, cancelled, released."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from local_node.doors.schedule import ScheduledDocuments
from local_node.node import LocalNode
from semq.amqp import errors as amqp
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered
from semq.amqp.wire import Table
from semq.app.client import Client
from semq.app.errors import RefusedByNode
from semq.clock import SystemClock
from semq.moments import utc_text
from tests.service.engine_handles import handle_of
from tests.service.inprocess import InProcess, ask, linked, linked_node
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

DAY_MS = 86_400_000


@pytest.fixture(scope="module")
async def node(shared_inprocess: InProcess) -> LocalNode:
    """A linked node shared by the tests of this file, which leave no scheduled documents at it."""
    return await linked_node(shared_inprocess)


def url(node: LocalNode) -> str:
    return f"amqp://guest:guest@127.0.0.1:{node.port}"


def now_ms() -> int:
    return round(SystemClock().wall().timestamp() * 1000)


async def test_a_scheduled_document_is_shown_and_arrives_on_time(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)
    await linked(a, b)
    async with Client(url(a)) as client, Client(url(b)) as receiver:
        at = now_ms() + 3000
        sent = await client.send(
            "56001", b"later", app_key="trade/order//L1", not_before=at, expires_at=at + 600_000, headers={"x": 1}
        )
        assert sent.not_before == at
        assert sent.name == (await client.look("L1"))["name"]
        for name in (sent.lk0, sent.name, "L1"):
            shown = await client.look(name)
            assert (shown["state"], shown["not_before"], shown["lk0"]) == ("SCHEDULED", at, sent.lk0)
        (listed,) = (await client.request("msg.list", {"state": "scheduled"}))["rows"]
        assert listed["lk0"] == sent.lk0
        traced = await client.request("msg.trace", {"id": sent.lk0})
        lines = [(line["event"], line["detail"]) for line in traced["events"]]
        times = f"not before {utc_text(at)}, expires at {utc_text(at + 600_000)}"
        assert lines == [("SUBMITTED", ""), ("SCHEDULED", times)]
        assert "stuck" not in await client.request("msg.show", {"id": sent.lk0})
        async with receiver.receive() as documents:
            async for document in documents:
                assert (document.payload, dict(document.headers)) == (b"later", {"x": 1})
                await document.ack()
                break
        assert now_ms() >= at
        await client.wait_for_delivery(sent.lk0)
        shown = await client.look(sent.name)
        assert shown["lk0"] == document.lk0 != sent.lk0


@pytest.mark.parametrize(("name", "first", "second"), [("x-delay", "K1", "K2"), ("@NotBefore", "L1", "L2")])
async def test_a_scheduled_document_is_cancelled_or_released_by_an_operator(
    shared_inprocess: InProcess, node: LocalNode, name: str, first: str, second: str
) -> None:
    link = await shared_inprocess.client(node)
    channel = await link.open_channel()
    await channel.confirm_select()
    headers = {name: DAY_MS + (now_ms() if name == "@NotBefore" else 0)}

    async def publish(key: str, body: bytes = b"x") -> None:
        attributes: Table = {"@AppKey": f"a/b/c/{key}", "@Token": f"token of {key}", **headers}
        header = ContentHeader.build(1, Properties(headers=attributes))
        assert await publish_and_wait(channel, "semq", "10008", header, body)

    for key in (first, second):
        await publish(key)
    shown = (await ask(link, "msg.show", {"id": first}))["result"]
    assert abs(shown["not_before"] - now_ms() - DAY_MS) < 60_000
    cancelled = (await ask(link, "msg.cancel", {"id": first, "why": "not wanted"}))["result"]
    assert cancelled["lk0"] == shown["lk0"]
    await publish(first)  # a repetition of the cancelled document
    assert ((await ask(link, "msg.show", {"id": shown["lk0"]}))["result"])["outcome"] == "CANCELLED"
    listed = {row["app_key"].rpartition("/")[2] for row in (await ask(link, "msg.list", {}))["result"]["rows"]}
    assert listed & {first, second} == {second}
    released = (await ask(link, "msg.release", {"id": second, "why": "wanted now"}))["result"]
    assert released["released"]
    inbox: asyncio.Queue[bytes] = asyncio.Queue()
    listener = await link.open_channel()

    def put_bodies(batch: list[Delivered]) -> None:
        for delivered in batch:
            listener.ack(delivered.delivery_tag)
            inbox.put_nowait(bytes(delivered.body))

    await listener.consume("semq.inbox", put_bodies)
    async with asyncio.timeout(60):
        assert await inbox.get() == b"x"
    listener.close()
    status = (await ask(link, "node.status", {}))["result"]
    assert status["sql_submissions"]["scheduled"] == 0


@pytest.mark.parametrize("delay", [-1, "soon", True, 2**40])
async def test_a_delay_that_is_no_number_of_milliseconds_is_refused(
    shared_inprocess: InProcess, node: LocalNode, delay: Any
) -> None:
    channel = await (await shared_inprocess.client(node)).open_channel()
    await channel.confirm_select()
    header = ContentHeader.build(1, Properties(headers={"x-delay": delay}))
    with pytest.raises(amqp.PreconditionFailed, match="x-delay"):
        await publish_and_wait(channel, "semq", "10008", header, b"x")


async def test_sql_schedules_documents_by_a_header_and_reads_their_state(inprocess: InProcess) -> None:
    _, a = await inprocess.linked_pair()
    with psycopg.connect(a.store.url, autocommit=True) as connection:

        def send(headers: dict[str, Any], further_arguments: str = "") -> int:
            query = f"SELECT semq_send('10008', 'x'::bytea, headers => %s::jsonb{further_arguments})"  # constants only
            row = connection.execute(query, (json.dumps(headers),)).fetchone()
            assert row is not None
            return int(row[0])

        def state(number: int) -> str:
            row = connection.execute("SELECT state FROM semq_status(%s::bigint)", (number,)).fetchone()
            assert row is not None
            return str(row[0])

        late, soon = send({"@NotBefore": now_ms() + DAY_MS}), send({"@NotBefore": now_ms() + 1500})
        assert (state(late), state(soon)) == ("SCHEDULED", "SCHEDULED")

        def is_released() -> bool:
            a.clockwork.hasten("schedule")  # do not wait for the interval of the job
            return state(soon) not in ("SCHEDULED", "SUBMITTED")

        await until(is_released)
        assert state(late) == "SCHEDULED"
        for wrong in (-1, now_ms() // 1000, 2**60, "soon"):
            with pytest.raises(psycopg.Error, match="SEMQ-1102"):
                send({"@NotBefore": wrong})
        with pytest.raises(psycopg.Error, match="SEMQ-1104"):
            send({"@NotBefore": now_ms() + DAY_MS}, ", expires_at => now() + interval '1 hour'")
        plain = "INSERT INTO tb_0031_submit (target, payload, headers) VALUES ('10008', 'x', %s)"
        connection.execute(plain, ('{"@NotBefore": 4000000000000}',))
        query = "SELECT reason_text FROM tb_0031_submit WHERE reason_code = 'SEMQ-1102'"

        def is_refused() -> bool:
            a.clockwork.hasten("sql_submissions")  # do not wait for the interval of the job
            return "not_before" in str(connection.execute(query).fetchone())

        await until(is_refused)


async def test_searches_for_due_and_for_open_rows_use_an_index(inprocess: InProcess) -> None:
    a = await inprocess.local("10008", 1)  # no hub
    with psycopg.connect(a.store.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO tb_0031_submit (target, payload, not_before)"
            " SELECT '10008', 'x', now() + n * interval '1 hour' FROM generate_series(1, 5000) n"
        )
        connection.execute("ANALYZE tb_0031_submit")
        next_due = "SELECT number FROM tb_0031_submit WHERE not_before > now() ORDER BY not_before, number LIMIT 1"
        where = "WHERE reason_code IS NULL AND not_before IS NULL"
        open_rows = f"SELECT number FROM tb_0031_submit {where} ORDER BY number LIMIT 9"
        for query in (next_due, open_rows):
            plan = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}").fetchone()
            assert plan is not None
            (top,) = plan[0]
            plan_text = json.dumps(top)
            assert "tb_0031_submit_due" in plan_text or "tb_0031_submit_open" in plan_text
            assert top["Plan"]["Plans"][0]["Actual Rows"] <= 1


async def test_a_document_that_would_expire_before_its_release_is_refused(node: LocalNode) -> None:
    async with Client(url(node)) as client:
        with pytest.raises(RefusedByNode) as caught:
            await client.send("10008", b"x", not_before=now_ms() + DAY_MS, expires_at=now_ms() + 1000)
        assert caught.value.code == "SEMQ-1104"


class _Core:
    """The clock of an engine, and its posts."""

    def __init__(self) -> None:
        self.posts: list[Any] = []

    def now(self) -> float:
        return 100.0

    def now_ms(self) -> int:
        return 100_000

    def post(self, work: Any, failed: Any) -> None:
        self.posts.append(work)


def test_the_earliest_time_is_planned_whenever_it_was_scheduled() -> None:
    engine: Any = SimpleNamespace(core=_Core())
    waits: list[float] = []
    documents = ScheduledDocuments(handle_of(engine), waits.append, lambda then: None)
    documents.note_scheduled(105_000)
    documents.note_scheduled(103_000)
    documents.note_scheduled(104_000)
    assert waits == [5.0, 3.0]
    documents.release_due()
    assert len(engine.core.posts) == 1
    documents.release_due()  # a read is under way
    assert len(engine.core.posts) == 1
    documents.note_scheduled(101_000)
    documents.note_scheduled(102_000)
    documents._note_released(0, 104_000)
    assert waits == [5.0, 3.0, 1.0]
