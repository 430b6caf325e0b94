"""Every table of a node has a scene in which Postgres refuses its rows. ``SWEEP`` is compared with the catalogue.

In all scenes only the work of the row fails, with the words of Postgres, and it succeeds once the rule is removed.
"""

import ast
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import Connection

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError
from semq.clock import SystemClock
from semq.errors import SemqError
from semq.store import accounts, audit, figures, identities
from semq.store.control import cluster
from semq.store.postgres.errors import RowRefused
from semq.store.postgres.schema_version import VERSION_TABLE
from semq.store.reader import Reader
from semq.store.rows import RetiredStore
from semq.umx_t.agreement import Terms
from semq.umx_t.status import Outcome
from semq.web.node.database import Database
from tests.service.inprocess import InProcess, ask, linked
from tests.store.postgres.refusals.test_refusals import (
    BAD,
    DOCUMENTS,
    PairOfNodes,
    Refusing,
    body_of,
    key_of,
    new_round,
    outcomes,
    refusals_in_health,
    refusing,
    submit,
)
from tests.store.test_figures import LINE
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

WORDS = "no such row here"  # of the trigger that ``refusing`` installs
FOLDER, HERE = Path(__file__).parent, Path(__file__).name
NOW = datetime(2026, 11, 21, tzinfo=UTC)
OF_DOCUMENTS, OF_DEFINITIONS = "test_refusals.py", "test_refused_definitions.py"

# Table | file and test with its scene; a table written by migrations only has a reason.
SWEEP: dict[str, tuple[str, str]] = {
    VERSION_TABLE: ("../test_migration.py", ""),  # changed by upgrades alone, which end with the error of Postgres
    "tb_0031": (OF_DOCUMENTS, "test_a_row_refused_at_the_sender_is_one_refused_submission"),
    "tb_0031_body": (OF_DOCUMENTS, "test_a_row_refused_at_the_sender_is_one_refused_submission"),
    "tb_0031_token": (OF_DOCUMENTS, "test_a_row_refused_at_the_sender_is_one_refused_submission"),
    "tb_0031_order": (OF_DOCUMENTS, "test_a_row_refused_at_the_sender_is_one_refused_submission"),
    "semq_ledger": (OF_DOCUMENTS, "test_a_row_refused_at_the_sender_is_one_refused_submission"),
    "tb_0030": (OF_DOCUMENTS, "test_any_sqlstate_at_the_receiver_is_one_rejected_document"),
    "tb_0030_body": (OF_DOCUMENTS, "test_a_row_refused_in_any_table_of_the_receiver_is_one_rejected_document"),
    "tb_0030_ledger": (
        OF_DOCUMENTS, "test_a_position_that_cannot_be_recorded_keeps_no_other_document_and_is_answered_once_it_can",
    ),
    "tb_0030_seen": (
        OF_DOCUMENTS, "test_a_message_of_class_2_that_cannot_be_noted_keeps_no_other_from_its_application",
    ),
    "broker_message": (
        OF_DOCUMENTS, "test_a_message_of_an_own_queue_that_is_refused_is_the_only_one_that_is_not_confirmed",
    ),
    "broker_queue": (OF_DEFINITIONS, "test_a_refused_definition_is_said_with_the_words_of_postgres_and_does_not_exist"),
    "broker_exchange": (
        OF_DEFINITIONS, "test_a_refused_definition_is_said_with_the_words_of_postgres_and_does_not_exist",
    ),
    "broker_binding": (
        OF_DEFINITIONS, "test_a_refused_definition_is_said_with_the_words_of_postgres_and_does_not_exist",
    ),
    "tb_0030_stream": (HERE, "test_documents_wait_while_a_position_cannot_be_noted_and_others_go_on"),
    "semq_receipts": (HERE, "test_documents_wait_while_a_position_cannot_be_noted_and_others_go_on"),
    "semq_certificate": (HERE, "test_a_certificate_that_cannot_be_stored_is_used_and_named_in_health"),
    "tb_0031_submit": (HERE, "test_a_submission_by_sql_that_cannot_be_stored_is_refused_in_its_transaction"),
    "tb_0031_taken": (HERE, "test_a_submission_by_sql_that_cannot_be_taken_is_refused_with_the_words_of_postgres"),
    "tb_0031_renamed": (HERE, "test_a_repetition_that_is_refused_says_the_words_of_postgres_to_the_operator"),
    "tb_0031_wait": (HERE, "test_a_wait_that_cannot_be_noted_is_named_in_health_and_delays_no_others"),
    "tb_0031_piece": (HERE, "test_a_document_whose_pieces_are_refused_is_refused_to_its_publisher"),
    "tb_0030_done": (HERE, "test_a_receiver_by_sql_that_cannot_finish_gets_the_document_again"),
    "broker_body": (HERE, "test_a_large_message_whose_body_is_refused_is_refused_to_its_publisher"),
    "broker_handed_out": (HERE, "test_a_mark_that_is_refused_is_named_in_health_and_delays_no_message"),
}  # fmt: skip


def test_every_table_has_a_scene(database: str) -> None:
    """A new table needs a row in ``SWEEP`` or ``SCENES``."""
    query = (
        "SELECT relname FROM pg_class c WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
        " AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)"
    )
    with psycopg.connect(database) as connection:
        tables = {name for (name,) in connection.execute(query)}
    assert tables == SWEEP.keys() | {scene.table for scene in SCENES.values()} | BESIDE.keys() | set(AT_START)


def test_the_sweep_names_tests_that_exist_and_the_table() -> None:
    for table, (file, test) in SWEEP.items():
        text = (FOLDER / file).read_text()
        functions = {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.AsyncFunctionDef)}
        assert not test or (test in functions and f'"{table}"' in text), table


# ------------------------------------------------------------------- changes beside the writer: of operators and people

ACCOUNT = accounts.Account("anna", None, ("viewer",), NOW, "test")
SESSION = accounts.AccountSession(b"h", "anna", (), NOW, NOW, NOW + timedelta(1))
TOKEN = accounts.Token("id", b"h", "reports", ("viewer",), NOW, "test")
CERTIFICATE = identities.IssuedCertificate("ab", "10008", "key", b"der", NOW, NOW + timedelta(1))
TICKET = identities.Ticket(b"hash", "10008", (), NOW, NOW + timedelta(1))
STATE = cluster.StoreState(1, 1, 1)


def count_one_line(connection: Connection) -> None:
    with connection.begin():
        connection.execute(LINE, {"at": NOW, "side": 1, "event": 1, "lk0": "", "target": "", "detail": ""})
    figures.count_lines(connection)


FACTS = {"life": 1, "semq_id": 1, "semq_db_id": 1, "host": "h", "endpoint": "e"}
BESIDE: dict[str, Callable[[Connection], object]] = {
    "web_account": partial(accounts.add_account, new=ACCOUNT),
    "web_session": partial(accounts.add_session, new=SESSION, roles=None),
    "web_link": partial(accounts.store_first_link, hash_=b"h", now=NOW, expires_at=NOW, always=True),
    "web_token": partial(accounts.add_token, new=TOKEN),
    "web_audit": partial(audit.add, lines=[audit.Line(NOW, "anna", "session", "", "msg.cancel")]),
    "node_certificate": partial(identities.add_certificate, issued=CERTIFICATE, presented=""),
    "node_token": partial(identities.add_token, ticket=TICKET),
    "node_life": partial(identities.note_store, store=identities.NodeStore("10008", "uuid", 1, NOW)),
    "definition": partial(identities.add_definition, document="", at=NOW, why="", expected=0),
    "semq_retired_store": partial(cluster.retire, row=RetiredStore(1, 1, "anna", "lost")),
    "hub_identity": partial(cluster.claim_identity, hub="hub", hub_id=UUID(int=1), carrier_key=b"k"),
    "hub_store": partial(cluster.open_store, store=(1, 1), store_uuid=UUID(int=1)),
    "node_home": partial(cluster.add_homes, drawn={"10008": (1, 1)}),
    "semq_counted": figures.count_lines,
    "semq_figure": count_one_line,
    "hub_instance": partial(cluster.note_sign_of_life, facts=FACTS, store_uuid=UUID(int=1), state=STATE),
}


@pytest.mark.parametrize("table", BESIDE)
async def test_a_change_beside_the_writer_that_is_refused_says_the_words_of_postgres(database: str, table: str) -> None:
    refuse(database, table)
    reader, web = Reader(lambda: database), Database(lambda: database)
    try:
        for execute in (reader.execute, web.write):
            with pytest.raises(RowRefused) as caught:
                await execute(BESIDE[table])
            assert caught.value.facts["fault"] == WORDS
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DROP FUNCTION refuse CASCADE")
        await reader.execute(BESIDE[table])
    finally:
        await reader.close()
        web.close()


def refuse(url: str, table: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE '{WORDS}'; END $$;"
            f" CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()".encode()
        )


async def test_an_operation_that_is_refused_says_the_words_of_postgres_to_its_caller_and_health_the_rule(
    nodes: PairOfNodes, shared_inprocess: InProcess
) -> None:
    arguments = {"name": "reports", "scopes": ["viewer"]}
    for table in ("web_token", "web_audit"):
        async with refusing(nodes.a, Refusing(table, "true"), ""):
            answer = await ask(await shared_inprocess.client(nodes.a), "token.create", arguments)
            assert WORDS in str(answer["error"]), answer
            assert "refuse()" in await refusals_in_health(nodes.a)
    assert (await ask(await shared_inprocess.client(nodes.a), "token.create", arguments))["ok"]


# ---------------------------------------------------------------------------------------------- the start of a node

AT_START = ("semq_meta", "semq_incarnation", "store_lease")


@pytest.mark.parametrize("table", AT_START)
async def test_a_row_refused_at_the_start_ends_the_start_with_the_words_of_postgres(
    inprocess: InProcess, table: str
) -> None:
    hub = await inprocess.hub()
    await hub.stop()
    refuse(hub.store.url, table)
    again = HubNode(hub.settings, SystemClock())
    with pytest.raises(SemqError) as caught:
        await again.start()
    await again.stop()
    assert WORDS in str(caught.value)
    with psycopg.connect(hub.store.url, autocommit=True) as connection:
        connection.execute("DROP FUNCTION refuse CASCADE")
    again = HubNode(hub.settings, SystemClock())
    await again.start()
    await again.stop()


# -------------------------------------------------------------------------------------------------- documents


@pytest.fixture(scope="module")
async def nodes(shared_inprocess: InProcess) -> AsyncIterator[PairOfNodes]:
    """Start a hub and two institutions with certificates, so that documents can be sealed and receipts are signed."""
    nodes = await _pair_of_nodes(shared_inprocess)
    yield nodes
    assert [each.engine_starts for each in (nodes.hub, nodes.a, nodes.b)] == [1, 1, 1]  # no store was lost


async def _pair_of_nodes(inprocess: InProcess) -> PairOfNodes:
    hub, small = await inprocess.secure_hub(), "pieces_from_bytes = 50000\n"
    a, b = [await inprocess.secure_local(name, hub, small) for name in ("10008", "56001")]
    await _know_each_other(a, b)
    return PairOfNodes(hub, a, b)


async def _know_each_other(a: LocalNode, b: LocalNode) -> None:
    """Wait until each node has accepted the certificate of the other."""
    await linked(a, b)
    for node, other in ((a, "1.56001"), (b, "1.10008")):
        assert node.sealing is not None
        await until(partial(node.sealing.known, other))


def is_named(node: LocalNode) -> bool:
    """Return whether health names the rule, as ``refusals_in_health`` would."""
    return any("refuse()" in row.rule for row in node.store.refusals.recent())


class RefusalScene(NamedTuple):
    """Documents of a round that need rows of a table."""

    table: str
    at_receiver: bool  #: whether the receiver refuses the rows, else the sender
    act: Callable[[PairOfNodes, str], Awaitable[str]]  #: returns the error, or the reason why it waits


async def _submit(nodes: PairOfNodes, name: str, **every: Any) -> str:
    errors = submit(nodes.a, "56001", name, every=tuple(every.items()))
    await until(lambda: errors or len(outcomes(nodes.a, name)) == 5)
    return str(errors[0]) if errors else ""


SCENES: dict[str, RefusalScene] = {
    "stream of the sender": RefusalScene("tb_0031_stream", False, _submit),
    "chain": RefusalScene("semq_chain", False, _submit),
    "session key": RefusalScene("semq_session_key", False, partial(_submit, encrypt=True)),
}


@pytest.mark.parametrize("scene", SCENES)
async def test_a_document_whose_rows_are_refused_fails_with_the_words_of_postgres(
    nodes: PairOfNodes, scene: str
) -> None:
    table, at_receiver, act = SCENES[scene]
    node = nodes.b if at_receiver else nodes.a
    async with refusing(node, Refusing(table, "true", "INSERT OR UPDATE"), ""):
        assert WORDS in await act(nodes, new_round())
        assert "refuse()" in await refusals_in_health(node)
    name = new_round()
    assert await act(nodes, name) == ""
    assert {outcome for outcome, _ in outcomes(nodes.a, name).values()} == {Outcome.DELIVERED}


@pytest.mark.parametrize("table", ["tb_0030_stream", "semq_receipts"])
async def test_documents_wait_while_a_position_cannot_be_noted_and_others_go_on(
    inprocess: InProcess, table: str
) -> None:
    nodes = await _pair_of_nodes(inprocess)
    name, other = new_round(), new_round()
    node = nodes.b if table == "tb_0030_stream" else nodes.a
    async with refusing(node, Refusing(table, "true", "INSERT OR UPDATE"), ""):
        assert submit(nodes.a, "56001", name) == []
        await until(lambda: is_named(node))
        if node is nodes.b:
            submit(nodes.a, "10008", other)
            await until(lambda: len(outcomes(nodes.a, other)) == DOCUMENTS)
        assert outcomes(nodes.a, name) == {}
    await until(lambda: len(outcomes(nodes.a, name)) == DOCUMENTS)
    # The rejection of an attempt that was refused may be the first that can be recorded.
    assert {outcome for outcome, _ in outcomes(nodes.a, name).values()} <= {Outcome.DELIVERED, Outcome.REJECTED}


async def test_a_certificate_that_cannot_be_stored_is_used_and_named_in_health(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    a = await inprocess.secure_local("10008", hub)
    async with refusing(a, Refusing("semq_certificate", "true", "INSERT OR UPDATE"), ""):
        b = await inprocess.secure_local("56001", hub)
        await _know_each_other(a, b)
        name = new_round()
        assert submit(a, "56001", name, every=(("encrypt", True),)) == []
        await until(lambda: len(outcomes(a, name)) == DOCUMENTS and is_named(a))
    assert {outcome for outcome, _ in outcomes(a, name).values()} == {Outcome.DELIVERED}


# ------------------------------------------------------------------------------------------------------------- SQL


def send(node: LocalNode, name: str, number: int = 0, **more: Any) -> int:
    """Submit a document by SQL; return the number of the submission."""
    given = {"target": "1.56001", "payload": body_of(name, number), "app_key": f"t/t/t/{key_of(name, number)}", **more}
    names = ", ".join(f"{each} => %({each})s" for each in given)
    with psycopg.connect(node.store.url) as connection:
        [[number]] = connection.execute(f"SELECT semq_send({names})".encode(), given).fetchall()
        return int(number)


def state_of(node: LocalNode, number: int) -> str:
    return str(rows_of(node, f"SELECT s FROM semq_status({number}) s"))


def rows_of(node: LocalNode, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(node.store.url) as connection:
        return connection.execute(query.encode()).fetchall()


async def test_a_submission_by_sql_that_cannot_be_stored_is_refused_in_its_transaction(nodes: PairOfNodes) -> None:
    name = new_round()
    async with refusing(nodes.a, Refusing("tb_0031_submit", "NEW.app_key LIKE '%/{key}'"), key_of(name, BAD)):
        for number in range(DOCUMENTS):
            if number == BAD:
                with pytest.raises(psycopg.Error, match=WORDS):
                    send(nodes.a, name, number)
            else:
                send(nodes.a, name, number)
        await until(lambda: len(outcomes(nodes.a, name)) == DOCUMENTS - 1)


async def test_a_submission_by_sql_that_cannot_be_taken_is_refused_with_the_words_of_postgres(
    nodes: PairOfNodes,
) -> None:
    name = new_round()
    first = send(nodes.a, name, 0)
    async with refusing(nodes.a, Refusing("tb_0031_taken", f"NEW.number = {first + BAD}"), ""):
        numbers = [send(nodes.a, name, number) for number in range(1, DOCUMENTS)]
        assert first + BAD in numbers
        await until(lambda: len(outcomes(nodes.a, name)) == DOCUMENTS - 1)
        await until(lambda: WORDS in state_of(nodes.a, first + BAD))
        assert "refuse()" in await refusals_in_health(nodes.a)
    assert {outcome for outcome, _ in outcomes(nodes.a, name).values()} == {Outcome.DELIVERED}


async def test_a_repetition_that_is_refused_says_the_words_of_postgres_to_the_operator(
    nodes: PairOfNodes, shared_inprocess: InProcess
) -> None:
    number = send(nodes.a, new_round(), target="1.77777")
    await until(lambda: "SEMQ-1201" in state_of(nodes.a, number))
    client = await shared_inprocess.client(nodes.a)
    [[lk0]] = rows_of(nodes.a, f"SELECT lk0 FROM tb_0031_submit WHERE number = {number}")
    arguments = {"ids": [lk0]}
    async with refusing(nodes.a, Refusing("tb_0031_renamed", "true"), ""):
        assert WORDS in str(await ask(client, "failed.requeue", arguments))
    assert (await ask(client, "failed.requeue", arguments))["ok"]


async def test_a_wait_that_cannot_be_noted_is_named_in_health_and_delays_no_others(nodes: PairOfNodes) -> None:
    name = new_round()
    async with refusing(nodes.a, Refusing("tb_0031_wait", "true", "INSERT OR UPDATE"), ""):
        nodes.a.engine.partners.terms["1.10008"] = (Terms(per_minute=1),)
        for number in range(3):
            send(nodes.a, name, number, target="1.10008")
        for number in range(3, 6):
            send(nodes.a, name, number)
        await until(lambda: len(outcomes(nodes.a, name)) == 4)
        await until(lambda: is_named(nodes.a))
    del nodes.a.engine.partners.terms["1.10008"]
    await until(lambda: len(outcomes(nodes.a, name)) == 6)


async def test_a_receiver_by_sql_that_cannot_finish_gets_the_document_again(nodes: PairOfNodes) -> None:
    name = new_round()
    submit(nodes.a, "56001", name)
    await until(lambda: len(outcomes(nodes.a, name)) == DOCUMENTS)
    async with refusing(nodes.b, Refusing("tb_0030_done", "true"), ""):
        assert [finish_by_sql(nodes.b) for _ in range(2)] == [WORDS, WORDS]
    assert finish_by_sql(nodes.b) == ""


def finish_by_sql(node: LocalNode) -> str:
    with psycopg.connect(node.store.url) as connection:
        [[bref]] = connection.execute("SELECT bref FROM semq_receive()").fetchall()
        try:
            connection.execute("SELECT semq_done(%s)", (bref,))
        except psycopg.Error as error:
            return str(error.diag.message_primary)
        return ""


# ------------------------------------------------------------------------------------------------------------- AMQP

# Bytes from which a body is received in parts: pieces of a document, chunks of a message.
PIECES, CHUNKS = 1 << 19, 5 << 20


async def test_a_document_whose_pieces_are_refused_is_refused_to_its_publisher(
    nodes: PairOfNodes, shared_inprocess: InProcess
) -> None:
    async with refusing(nodes.a, Refusing("tb_0031_piece", "true"), ""):
        assert WORDS in await publish_large(nodes, shared_inprocess, "semq", "1.56001", PIECES)
        assert "refuse()" in await refusals_in_health(nodes.a)
    assert await publish_large(nodes, shared_inprocess, "semq", "1.56001", PIECES) == ""


async def test_a_large_message_whose_body_is_refused_is_refused_to_its_publisher(
    nodes: PairOfNodes, shared_inprocess: InProcess
) -> None:
    name = new_round()
    client = await shared_inprocess.client(nodes.a)
    channel = await client.open_channel()
    await channel.declare_queue(name, durable=True)
    await channel.confirm_select()
    async with refusing(nodes.a, Refusing("broker_body", "true"), ""):
        assert WORDS in await publish_large(nodes, shared_inprocess, "", name, CHUNKS)
        assert await publish_and_wait(channel, "", name, PERSISTENT, b"")
        assert "refuse()" in await refusals_in_health(nodes.a)
    assert await publish_large(nodes, shared_inprocess, "", name, CHUNKS) == ""


PERSISTENT = ContentHeader.build(0, Properties(delivery_mode=2))


async def publish_large(nodes: PairOfNodes, inprocess: InProcess, exchange: str, key: str, size: int) -> str:
    channel = await (await inprocess.client(nodes.a)).open_channel()
    await channel.confirm_select()
    header = ContentHeader.build(size, Properties(delivery_mode=2))
    try:
        return "" if await publish_and_wait(channel, exchange, key, header, bytes(size)) else "nacked"
    except AmqpError as error:
        return str(error)


async def test_a_mark_that_is_refused_is_named_in_health_and_delays_no_message(
    nodes: PairOfNodes, shared_inprocess: InProcess
) -> None:
    name = new_round()
    channel = await (await shared_inprocess.client(nodes.a)).open_channel()
    await channel.declare_queue(name, durable=True)
    await channel.confirm_select()
    async with refusing(nodes.a, Refusing("broker_handed_out", "true", "INSERT OR UPDATE"), ""):
        for _ in range(2):
            assert await publish_and_wait(channel, "", name, PERSISTENT, b"")
            got = await channel.get(name)
            assert got is not None
            channel.ack(got.delivery_tag)
        await until(lambda: is_named(nodes.a))
