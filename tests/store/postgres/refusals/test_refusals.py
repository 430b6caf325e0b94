"""A row that Postgres refuses, in any table and with any SQLSTATE, stops its own document only, and is visible."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import psycopg
import pytest

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered
from semq.engine.ports import Submission
from semq.errors import SemqError
from semq.store.postgres.errors import RowRefused
from semq.umx_t.address import Address
from semq.umx_t.app_key import AppKey
from semq.umx_t.envelope import Attributes
from semq.umx_t.status import Outcome, SaveFwd
from tests.service.inprocess import HUB_CONFIG, InProcess, linked
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

DOCUMENTS, BAD = 5, 2
_rounds = count(1)

# One of each class of SQLSTATE that a trigger can raise, a policy or a constraint can cause, or a server has.
STATES = (
    "P0001", "P0004", "23514", "23505", "23503", "22001", "22P02", "42501", "42P01", "42703", "54000", "55000", "0A000",
    "2F003", "38000", "39000", "44000", "25006", "26000", "3F000", "40001", "53100", "57014", "58030", "XX000", "XY123",
)  # fmt: skip


class Refusing(NamedTuple):
    """A rule of one table that refuses the rows of the bad document."""

    table: str
    is_bad: str  #: SQL condition about NEW (OLD for DELETE); {key} is the AppKey of the bad document
    when: str = "INSERT"
    attributes: tuple[tuple[str, Any], ...] = ()
    token: str = ""  #: of the bad document


KEY = "NEW.app_key = '{key}'"
IN_BODY = "position('{key}'::bytea IN NEW.envelope) > 0"
AT_SENDER = (
    Refusing("tb_0031", KEY),
    Refusing("tb_0031_body", IN_BODY),
    Refusing("semq_ledger", KEY),
    Refusing("tb_0031_token", "NEW.token = 'bad token'", token="bad token"),
    Refusing("tb_0031_order", "NEW.order_key = 'bad'", attributes=(("order_key", "bad"),)),
)
AT_RECEIVER = (
    Refusing("tb_0030", KEY),
    Refusing("tb_0030_body", IN_BODY),
    Refusing("semq_ledger", KEY),
)


@dataclass
class PairOfNodes:
    """A hub and two institutions."""

    hub: HubNode
    a: LocalNode
    b: LocalNode


@pytest.fixture(scope="module")
async def nodes(shared_inprocess: InProcess) -> AsyncIterator[PairOfNodes]:
    hub = await shared_inprocess.hub(HUB_CONFIG.replace('["56001", "10008"]', '["56001", "88001"]'))
    a, b = [await shared_inprocess.local(name, hub.port) for name in ("10008", "56001")]
    await linked(a, b)
    hub_and_nodes = PairOfNodes(hub, a, b)
    starts = [each.engine_starts for each in (hub, a, b)]
    yield hub_and_nodes
    assert [each.engine_starts for each in (hub, a, b)] == starts  # no store was lost


@asynccontextmanager
async def refusing(node: LocalNode | HubNode, rule: Refusing, key: str, sqlstate: str = "P0001") -> AsyncIterator[None]:
    """Install a rule as a trigger."""
    row = "OLD" if "DELETE" in rule.when else "NEW"
    trigger = f"refuse BEFORE {rule.when} ON {rule.table} FOR EACH ROW EXECUTE FUNCTION refuse()"
    await execute(
        node,
        f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {rule.is_bad.format(key=key)} THEN"
        f" RAISE EXCEPTION 'no such row here' USING ERRCODE = '{sqlstate}'; END IF; RETURN {row}; END $$;"
        f" CREATE TRIGGER {trigger}",
    )
    try:
        yield
    finally:
        await execute(node, "DROP FUNCTION refuse CASCADE")


async def execute(node: LocalNode | HubNode, statement: str) -> None:
    """Run a statement in a thread, because it may have to wait for the writer of the node."""

    def run() -> None:
        with psycopg.connect(node.store.url, autocommit=True) as connection:
            connection.execute(statement.encode())

    await asyncio.to_thread(run)


def submit(
    node: LocalNode,
    target: str,
    name: str,
    bad: tuple[tuple[str, Any], ...] = (),
    *,
    every: tuple[tuple[str, Any], ...] = (),
    bad_token: str = "",
) -> list[SemqError]:
    """Submit the documents of a round together; return the list that gets the errors."""
    errors: list[Any] = []

    def submission(number: int) -> Submission:
        attributes = Attributes(
            app_key=AppKey("t", "t", "t", key_of(name, number)), **dict(every + (bad if number == BAD else ()))
        )
        return Submission(
            Address(1, target), attributes, body_of(name, number), lambda accepted: None, errors.append,
            token=bad_token if number == BAD else "",
        )  # fmt: skip

    node.engine.submit([submission(number) for number in range(DOCUMENTS)])
    return errors


def key_of(name: str, number: int) -> str:
    return f"{name}-{number}"


def body_of(name: str, number: int) -> bytes:
    return key_of(name, number).encode()


def outcomes(node: LocalNode, name: str) -> dict[str, tuple[Outcome, str]]:
    """Return the outcome and the reason of each ended document of a round."""
    with psycopg.connect(node.store.url) as connection:
        rows = connection.execute(
            "SELECT s.app_key, l.event, l.detail FROM semq_ledger l JOIN semq_ledger s ON s.lk0 = l.lk0 AND s.event = 1"
            " WHERE l.side = 1 AND l.event BETWEEN 5 AND 10 AND s.app_key LIKE %s",
            (f"{name}-%",),
        ).fetchall()
    return {key: (Outcome(event * 10 + 60), detail) for key, event, detail in rows}


def received_keys(node: LocalNode, name: str) -> set[str]:
    """Return the AppKeys of the documents of a round that a node has recorded."""
    with psycopg.connect(node.store.url) as connection:
        rows = connection.execute(
            "SELECT app_key FROM semq_ledger WHERE side = 3 AND event = 20 AND app_key LIKE %s", (f"{name}-%",)
        ).fetchall()
    return {key for (key,) in rows}


def new_round() -> str:
    return f"round{next(_rounds)}"


async def refusals_in_health(node: LocalNode | HubNode) -> str:
    return next(check.detail for check in await node.checks() if check.name == "rows")


@pytest.mark.parametrize("sqlstate", STATES)
async def test_any_sqlstate_at_the_receiver_is_one_rejected_document(nodes: PairOfNodes, sqlstate: str) -> None:
    name = new_round()
    async with refusing(nodes.b, AT_RECEIVER[0], key_of(name, BAD), sqlstate):
        assert submit(nodes.a, "56001", name) == []
        await until(lambda: len(outcomes(nodes.a, name)) == DOCUMENTS)
    ended = outcomes(nodes.a, name)
    outcome, detail = ended.pop(key_of(name, BAD))
    assert outcome is Outcome.REJECTED
    assert RowRefused.code in detail
    assert "no such row here" in detail
    assert {each for each, _ in ended.values()} == {Outcome.DELIVERED}


@pytest.mark.parametrize("rule", AT_RECEIVER, ids=lambda rule: str(rule.table))
async def test_a_row_refused_in_any_table_of_the_receiver_is_one_rejected_document(
    nodes: PairOfNodes, rule: Refusing
) -> None:
    name = new_round()
    async with refusing(nodes.b, rule, key_of(name, BAD)):
        assert submit(nodes.a, "56001", name) == []
        await until(lambda: len(outcomes(nodes.a, name)) == DOCUMENTS)
    ended = outcomes(nodes.a, name)
    assert ended.pop(key_of(name, BAD))[0] is Outcome.REJECTED
    assert {each for each, _ in ended.values()} == {Outcome.DELIVERED}
    assert "refuse()" in await refusals_in_health(nodes.b)


@pytest.mark.parametrize("rule", AT_SENDER, ids=lambda rule: str(rule.table))
async def test_a_row_refused_at_the_sender_is_one_refused_submission(nodes: PairOfNodes, rule: Refusing) -> None:
    name = new_round()
    async with refusing(nodes.a, rule, key_of(name, BAD)):
        errors = submit(nodes.a, "56001", name, rule.attributes, bad_token=rule.token)
        await until(lambda: len(outcomes(nodes.a, name)) == DOCUMENTS - 1)
    assert [type(error) for error in errors] == [RowRefused]
    assert {outcome for outcome, _ in outcomes(nodes.a, name).values()} == {Outcome.DELIVERED}
    assert "refuse()" in await refusals_in_health(nodes.a)


async def test_a_row_that_cannot_be_changed_at_the_sender_keeps_no_other_from_its_end(nodes: PairOfNodes) -> None:
    name = new_round()
    rule = Refusing("tb_0031", "OLD.app_key = '{key}'", "DELETE")
    async with refusing(nodes.a, rule, key_of(name, BAD)):
        assert submit(nodes.a, "56001", name) == []
        await until(lambda: len(outcomes(nodes.a, name)) == DOCUMENTS - 1)
        assert key_of(name, BAD) not in outcomes(nodes.a, name)
    await until(lambda: len(outcomes(nodes.a, name)) == DOCUMENTS)  # the next inquiry ends it
    assert {outcome for outcome, _ in outcomes(nodes.a, name).values()} == {Outcome.DELIVERED}


async def test_a_row_refused_at_the_hub_is_one_refused_document(nodes: PairOfNodes) -> None:
    name = new_round()
    with psycopg.connect(nodes.a.store.url) as connection:
        [[last]] = connection.execute("SELECT coalesce(max(sid), -1) FROM tb_0031 WHERE dest = '1.88001'").fetchall()
    rule = Refusing("tb_0031", f"NEW.sid = {last + 1 + BAD} AND NEW.dest = '1.88001'")
    async with refusing(nodes.hub, rule, key_of(name, BAD)):
        assert submit(nodes.a, "88001", name) == []
        await until(lambda: len(outcomes(nodes.a, name)) == 1)
    [(outcome, detail)] = outcomes(nodes.a, name).values()
    assert outcome is Outcome.REJECTED
    assert "no such row here" in detail
    assert "refuse()" in await refusals_in_health(nodes.hub)


async def test_a_document_whose_delivery_is_refused_keeps_no_other_from_the_application(
    nodes: PairOfNodes, shared_inprocess: InProcess
) -> None:
    name = new_round()
    consumer = await (await shared_inprocess.client(nodes.b)).open_channel()
    received: set[bytes] = set()

    def note(batch: list[Delivered]) -> None:
        received.update(bytes(each.body) for each in batch)
        consumer.ack(batch[-1].delivery_tag, multiple=True)

    rule = Refusing("tb_0030", "OLD.app_key = '{key}'", "UPDATE OR DELETE")
    async with refusing(nodes.b, rule, key_of(name, BAD)):
        submit(nodes.a, "56001", name)
        await until(lambda: len(outcomes(nodes.a, name)) == DOCUMENTS)
        await consumer.consume("semq.inbox", note)
        await until(lambda: received >= {body_of(name, each) for each in range(DOCUMENTS) if each != BAD})
    assert body_of(name, BAD) not in received


async def test_a_message_of_an_own_queue_that_is_refused_is_the_only_one_that_is_not_confirmed(
    nodes: PairOfNodes, shared_inprocess: InProcess
) -> None:
    name = new_round()
    client = await shared_inprocess.client(nodes.a)
    channels = [await client.open_channel() for _ in range(2)]  # also a publisher on another channel
    for channel in channels:
        await channel.confirm_select()
    await channels[0].declare_queue(name, durable=True)
    rule = Refusing("broker_message", "NEW.body = '{key}'::bytea")
    properties = Properties(delivery_mode=2)
    async with refusing(nodes.a, rule, key_of(name, BAD)):
        bodies = [body_of(name, number) for number in range(DOCUMENTS)]
        confirmed = await asyncio.gather(
            *(
                publish_and_wait(channel, "", name, ContentHeader.build(len(body), properties), body)
                for channel in channels
                for body in bodies
            )
        )
    assert list(confirmed) == 2 * [number != BAD for number in range(DOCUMENTS)]
    with psycopg.connect(nodes.a.store.url) as connection:
        rows = connection.execute("SELECT body FROM broker_message ORDER BY position").fetchall()
    assert sorted(bytes(body) for (body,) in rows) == sorted(2 * [body for body in bodies if body != bodies[BAD]])
    assert "refuse()" in await refusals_in_health(nodes.a)


async def test_a_position_that_cannot_be_recorded_keeps_no_other_document_and_is_answered_once_it_can(
    nodes: PairOfNodes,
) -> None:
    """The receiver cannot record a rejection at this position either, so its sender asks and sends it again."""
    name = new_round()
    with psycopg.connect(nodes.a.store.url) as connection:
        query = "SELECT coalesce(max(next_sid), 0) FROM tb_0031_stream WHERE dest = '1.56001'"
        [[next_sid]] = connection.execute(query).fetchall()
    rule = Refusing("tb_0030_ledger", f"NEW.sid = {next_sid + BAD}")
    async with refusing(nodes.b, rule, key_of(name, BAD)):
        assert submit(nodes.a, "56001", name) == []
        await until(lambda: len(outcomes(nodes.a, name)) == DOCUMENTS - 1)
        assert key_of(name, BAD) not in outcomes(nodes.a, name)
        assert "refuse()" in await refusals_in_health(nodes.b)
    await until(lambda: len(outcomes(nodes.a, name)) == DOCUMENTS)
    ended = {key: outcome for key, (outcome, _) in outcomes(nodes.a, name).items()}
    # The rejection of an attempt that was refused may be the first that can be recorded.
    assert ended.pop(key_of(name, BAD)) in {Outcome.DELIVERED, Outcome.REJECTED}
    assert set(ended.values()) == {Outcome.DELIVERED}


async def test_a_message_of_class_2_that_cannot_be_noted_keeps_no_other_from_its_application(
    nodes: PairOfNodes,
) -> None:
    name = new_round()
    with psycopg.connect(nodes.a.store.url) as connection:
        query = "SELECT coalesce(max(split_part(lk0, '.', 6)::bigint), 0) FROM semq_ledger"
        [[last]] = connection.execute(query).fetchall()
    rule = Refusing("tb_0030_seen", f"split_part(NEW.ident, '.', 6)::bigint % {DOCUMENTS} = {(last + 1) % DOCUMENTS}")
    async with refusing(nodes.b, rule, key_of(name, BAD)):
        assert submit(nodes.a, "56001", name, every=(("save_fwd", SaveFwd.STORE),)) == []
        await until(lambda: len(received_keys(nodes.b, name)) == DOCUMENTS - 1)
        later = new_round()
        submit(nodes.a, "56001", later)
        await until(lambda: len(outcomes(nodes.a, later)) == DOCUMENTS)
        assert len(received_keys(nodes.b, name)) == DOCUMENTS - 1
        assert "refuse()" in await refusals_in_health(nodes.b)
