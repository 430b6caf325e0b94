"""Rows written by applications through SQL: those that have to wait delay no others, and refusals are reported."""

import sys
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from local_node.doors.refused_submissions import requeue_or_remove
from local_node.doors.sql_submissions import BATCH, SqlSubmissions
from semq.store.postgres.errors import DecisionFailed
from semq.store.rows import Event, Submitted
from semq.store.unit import Unit
from semq.store.work import Work
from semq.umx_t.agreement import Terms
from semq.umx_t.records import Presence
from tests.flows.trio import SETTINGS, Trio
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until


def write_rows(trio: Trio, *targets: str) -> None:
    tables = trio.a.store.tables
    for number, target in enumerate(targets, 1):
        tables.submitted[number] = Submitted(number, target, b"x", "", 3, 1, "", "", "", "{}")


def waiting_targets(trio: Trio) -> list[str]:
    tables = trio.a.store.tables
    return [row.target for number, row in tables.submitted.items() if number not in tables.refused]


def test_rows_above_the_rate_of_an_agreement_wait_and_delay_no_others() -> None:
    trio = Trio()
    trio.a.engine.partners.terms["1.56001"] = (Terms(per_minute=1),)
    write_rows(trio, *["56001"] * (BATCH + 2), "10008")
    submissions = SqlSubmissions(trio.a.engine_handle, lambda: None)
    submissions.poll()
    for _ in range(20):
        trio.a.store.run()
    assert trio.a.store.idle  # the read is not repeated
    assert waiting_targets(trio) == ["56001"] * (BATCH + 1)
    trio.time.now += 61
    submissions.poll()
    trio.settle()
    assert waiting_targets(trio) == ["56001"] * BATCH
    assert not trio.a.store.tables.refused


def test_a_row_taken_in_the_unit_of_the_next_read_is_not_taken_again() -> None:
    trio = Trio()
    write_rows(trio, "56001")
    submissions = SqlSubmissions(trio.a.engine_handle, lambda: None)
    submissions.poll()
    trio.a.store.run()  # found, and passed to the engine
    submissions.poll()
    trio.settle()
    assert trio.b.app.payloads == [b"x"]


def test_a_row_committed_after_a_read_began_is_read_without_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    trio = Trio()
    submissions = SqlSubmissions(trio.a.engine_handle, lambda: None)
    submit = submissions._submit

    def submit_after_a_new_row(engine: Any, rows: Any) -> None:
        monkeypatch.undo()
        write_rows(trio, "56001")
        submissions.poll()  # the NOTIFY of the new row
        submit(engine, rows)

    monkeypatch.setattr(submissions, "_submit", submit_after_a_new_row)
    submissions.poll()
    trio.settle()
    assert trio.b.app.payloads == [b"x"]


def test_the_rows_of_one_read_do_not_exceed_a_quota() -> None:
    trio = Trio(replace(SETTINGS, quota_rows_per_partner=3), connected=False)
    submissions = SqlSubmissions(trio.a.engine_handle, lambda: None)
    write_rows(trio, *["56001"] * 10)
    for _ in range(3):
        submissions.poll()
        submissions.poll()  # also during a read
        trio.settle()
    assert trio.a.engine.rows.unsettled == {"1.56001": 3}
    assert waiting_targets(trio) == ["56001"] * 7


def test_rows_above_a_quota_wait_with_a_reason_and_go_on_when_there_is_room() -> None:
    trio = Trio(replace(SETTINGS, quota_rows_per_partner=1), connected=False)
    submissions = SqlSubmissions(trio.a.engine_handle, lambda: None)
    write_rows(trio, "56001")
    submissions.poll()
    trio.settle()
    assert trio.a.engine.rows.unsettled == {"1.56001": 1}
    tables = trio.a.store.tables
    tables.submitted |= {
        n: Submitted(n, target, b"x", "", 3, 1, "", "", "", "{}") for n, target in ((2, "56001"), (3, "10008"))
    }
    for _ in range(2):
        submissions.poll()
        trio.settle()
    assert waiting_targets(trio) == ["56001"]
    assert not tables.refused
    assert submissions.waiting.keys() == {"56001"}
    assert submissions.waiting["56001"].code == "SEMQ-1204"
    assert tables.waits["56001"].reason[0] == "SEMQ-1204"
    trio.connect(trio.a)
    trio.connect(trio.b)
    trio.settle()
    for _ in range(2):
        submissions.poll()
        trio.settle()
    assert waiting_targets(trio) == []
    assert (submissions.waiting, tables.waits) == ({}, {})


def test_a_row_that_repeats_a_token_with_other_content_is_refused_and_kept() -> None:
    trio = Trio()
    trio.a.store.tables.submitted |= {
        n: Submitted(n, "56001", body, "", 3, 1, "", "T", "", "{}") for n, body in ((1, b"x"), (2, b"y"), (3, b"x"))
    }
    submissions = SqlSubmissions(trio.a.engine_handle, lambda: None)
    submissions.poll()
    trio.settle()
    tables = trio.a.store.tables
    assert set(tables.submitted) == {2}
    assert tables.refused[2].reason[0] == "SEMQ-1205"
    assert tables.taken[1] == tables.taken[3]
    assert trio.b.app.payloads == [b"x"]


def test_a_row_refused_in_the_unit_of_the_next_read_is_refused_once() -> None:
    trio = Trio()
    tables = trio.a.store.tables
    submissions = SqlSubmissions(trio.a.engine_handle, lambda: None)
    for number, body in ((1, b"x"), (2, b"y")):
        tables.submitted[number] = Submitted(number, "56001", body, "", 3, 1, "", "T", "", "{}")
        submissions.poll()
        trio.a.store.run()  # found, and passed to the engine
        submissions.poll()
        trio.settle()
    assert tables.refused.keys() == {2}
    assert [line.event for line in tables.ledger].count(Event.REFUSED) == 1
    assert [event.submission for event in trio.a.reported.events if event.kind == "failed"] == [2]


def test_rows_beyond_one_read_are_taken_after_one_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local_node.doors.sql_submissions.BATCH", 2)
    trio = Trio()
    write_rows(trio, "56001", "99999", "no address", "56001", "99999", "99999", "56001", "99999")
    submissions = SqlSubmissions(trio.a.engine_handle, lambda: None)
    submissions.poll()
    submissions.poll()
    trio.settle()
    assert waiting_targets(trio) == []
    assert sorted(trio.a.store.tables.refused) == [2, 3, 5, 6, 8]


def test_a_poll_in_which_many_rows_have_to_wait_requests_one_further_poll() -> None:
    trio = Trio()
    trio.a.engine.partners.terms["1.56001"] = (Terms(per_minute=1),)
    write_rows(trio, *["56001"] * 20)
    requests: list[None] = []
    submissions = SqlSubmissions(trio.a.engine_handle, lambda: requests.append(None))
    for polls in (1, 2):
        submissions.poll()
        trio.settle()
        assert len(requests) == polls


REFUSED = (
    # row | code of the event
    (Submitted(1, "99999", b"x", "a/b/c/1", 3, 1, "", "T1", "", "{}"), "SEMQ-1201"),
    (Submitted(2, "56001", b"x" * 2_000, "a/b/c/2", 3, 1, "", "", "", "{}"), "SEMQ-1203"),
    (Submitted(3, "56001", b"x", "a/b/c/3", 3, 1, "", "", "", '{"@Nonsense": 1}'), "SEMQ-1102"),
    (Submitted(4, "no address", b"x", "a/b/c/4", 3, 1, "", "", "", "{}"), "SEMQ-1101"),
    (Submitted(5, "56001", b"x", "no key", 3, 1, "", "", "", "{}"), "SEMQ-1103"),
    (Submitted(6, "56001", b"x", "a/b/c/6", 3, 1, "", "", "", '{"@ExpiresAt": 100000000000}'), "SEMQ-1206"),
    (Submitted(7, "56001", b"x", "a/b/c/7", 3, 1, "", "", "y" * 300, "{}"), "SEMQ-1102"),
    (Submitted(8, "70001", b"x", "a/b/c/8", 3, 1, "", "", "", "{}"), "SEMQ-1202"),
)


@pytest.mark.parametrize(("row", "code"), REFUSED, ids=[code + row.target for row, code in REFUSED])
def test_a_refusal_is_an_event_a_line_of_the_ledger_and_a_row_that_can_be_tried_again(
    row: Submitted, code: str
) -> None:
    trio = Trio(replace(SETTINGS, max_document_bytes=1_000))
    trio.a.engine.partners.learn([Presence(node="1.70001", online=True, allowed=False)])
    trio.a.engine.partners.complete = True
    trio.a.engine.partners.allowed["1.56001"] = True
    tables = trio.a.store.tables
    tables.submitted[row.row_id] = row
    submissions = SqlSubmissions(trio.a.engine_handle, lambda: None)
    submissions.poll()
    trio.settle()
    refusal = tables.refused[row.row_id]
    (event,) = trio.a.reported.events
    assert (event.kind, event.outcome, event.submission, event.token) == ("failed", "REJECTED", row.row_id, row.token)
    assert (event.lk0, event.reason) == (refusal.lk0, refusal.reason)
    assert refusal.reason[0] == code
    assert event.app_key.key in (row.app_key.rpartition("/")[2], "")
    (line,) = [line for line in tables.ledger if line.lk0 == str(refusal.lk0)]
    assert (line.event, line.detail[:9]) == (Event.REFUSED, code)
    received: list[object] = []
    trio.a.engine.core.post(requeue_or_remove(trio.a.engine.core, [str(refusal.lk0)], True, "mended", received.append))
    trio.settle()
    assert (received, tables.refused) == ([{str(refusal.lk0): row.row_id}], {})
    submissions.poll()
    trio.settle()
    assert tables.refused[row.row_id].lk0 != refusal.lk0  # refused again, under a new name
    lk0 = str(tables.refused[row.row_id].lk0)
    trio.a.engine.core.post(requeue_or_remove(trio.a.engine.core, [lk0], False, "not wanted", received.append))
    trio.settle()
    assert (received[1:], tables.submitted) == ([{lk0: row.row_id}], {})
    assert tables.renamed == {str(refusal.lk0): row.row_id}


async def test_rows_wait_and_are_taken_in_postgres_as_in_memory(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local_node.doors.sql_submissions.BATCH", 2)
    _, a = await inprocess.linked_pair()
    a.engine.partners.terms["1.56001"] = (Terms(per_minute=1),)

    def targets_of_rows() -> list[str]:
        with psycopg.connect(a.store.url) as connection:
            return [row[0] for row in connection.execute("SELECT target FROM tb_0031_submit ORDER BY number")]

    with psycopg.connect(a.store.url) as connection:
        for target in ("56001", "56001", "56001", "56001", "10008"):
            connection.execute("SELECT semq_send(%s, 'x'::bytea)", (target,))
    await until(lambda: "10008" not in targets_of_rows())
    assert targets_of_rows() == ["56001"] * 3


Status = tuple[str, str | None, str | None, Any]


def status_of(a: Any, numbers: list[int]) -> list[Status]:
    """Return the state of each submission, code and text of its reason, and the time of its last change."""
    with psycopg.connect(a.store.url) as connection:
        return [
            connection.execute(
                "SELECT state, reason_code, reason_text, changed_at FROM semq_status(%s::bigint)", (number,)
            ).fetchone()
            or ("", None, None, None)
            for number in numbers
        ]


async def test_each_waiting_submission_keeps_its_own_reason_and_start_of_waiting(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local_node.doors.sql_submissions.BATCH", 3)
    _, a = await inprocess.linked_pair()
    a.engine.partners.terms["1.56001"] = (Terms(per_minute=1),)
    reads, begin_read = list[None](), a.parts.submissions._begin_read

    def count_and_begin_read() -> None:
        reads.append(None)
        begin_read()

    monkeypatch.setattr(a.parts.submissions, "_begin_read", count_and_begin_read)
    sealed = [True, False, False, False, False]  # the first needs a missing key, the second is sent
    with psycopg.connect(a.store.url) as connection:
        send = "SELECT semq_send('56001', 'x'::bytea, encrypt => %s)"
        numbers = [(connection.execute(send, (encrypt,)).fetchone() or (0,))[0] for encrypt in sealed]

    def codes() -> list[str | None]:
        return [code for _, code, *_ in status_of(a, numbers)]

    await until(lambda: codes() == ["SEMQ-5207", None, "SEMQ-1213", "SEMQ-1213", "SEMQ-1229"])
    before = status_of(a, numbers)
    reason = before[4][2] or ""
    assert reason.startswith(f"It waits behind submission {numbers[0]} to the same target, which waits: SEMQ-5207 ")
    admin = await inprocess.client(a)
    rows = {row["submission"]: row for row in (await ask(admin, "stuck.list"))["result"]["rows"]}
    assert [rows[number]["reason"][0] for number in numbers if number in rows] == [code for code in codes() if code]
    assert rows[numbers[4]]["reason"][1].startswith(f"It waits behind sql-{numbers[0]} to the same target")
    seen = len(reads)
    await until(lambda: len(reads) > seen + 3)  # searched again repeatedly
    assert _waits(status_of(a, numbers)) == _waits(before)


def _waits(statuses: list[Status]) -> list[Status]:
    return [status for status in statuses if status[0] == "WAITS"]


async def test_a_delivered_document_has_no_reason(inprocess: InProcess) -> None:
    """The detail of its ledger line is not a reason: it is the receipt."""
    hub = await inprocess.hub()
    a, b = await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)
    await linked(a, b)
    with psycopg.connect(a.store.url) as connection:
        (number,) = connection.execute("SELECT semq_send('56001', 'x'::bytea)").fetchone() or (0,)
    await until(lambda: status_of(a, [number])[0][0] == "DELIVERED")
    await until(lambda: not message_rows(a))  # cleaned: only the ledger has it
    assert status_of(a, [number])[0][:3] == ("DELIVERED", None, None)


def message_rows(a: Any) -> list[Any]:
    with psycopg.connect(a.store.url) as connection:
        return connection.execute("SELECT lk0 FROM tb_0031").fetchall()


def submit_and_poll_once(a: Any, monkeypatch: pytest.MonkeyPatch, documents: list[bytes]) -> list[None]:
    """Submit documents in one transaction, and poll once; return a list that gets an item for each read."""
    monkeypatch.setattr(a.engine.core, "settings", replace(a.engine.core.settings, max_document_bytes=2**20))
    submissions, reads = a.parts.submissions, list[None]()
    polls, begin_read = [submissions.poll], submissions._begin_read

    def count_and_begin_read() -> None:
        reads.append(None)
        begin_read()

    monkeypatch.setattr(a.parts.sql_submissions, "_poll", lambda: polls.pop()() if polls else None)
    monkeypatch.setattr(submissions, "_begin_read", count_and_begin_read)
    with psycopg.connect(a.store.url) as connection:
        for document in documents:
            connection.execute("SELECT semq_send('56001', %s)", (document,))
    a.clockwork.hasten("sql_submissions")
    return reads


def reasons_of_rows(a: Any) -> list[str | None]:
    """Return the reasons of the rows that are still in tb_0031_submit."""
    with psycopg.connect(a.store.url) as connection:
        return [row[0] for row in connection.execute("SELECT reason_code FROM tb_0031_submit ORDER BY number")]


async def test_documents_beyond_the_bytes_of_one_read_are_read_without_another_poll(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, a = await inprocess.linked_pair()
    reads = submit_and_poll_once(a, monkeypatch, [b"x" * 2**20] * 20)
    await until(lambda: not reasons_of_rows(a))
    await until(lambda: len(reads) == 3)  # 16 and 4 documents, and one read that finds none


async def test_rows_above_the_size_limit_delay_no_others(inprocess: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    _, a = await inprocess.linked_pair()
    reads = submit_and_poll_once(a, monkeypatch, [*[b"x" * 9 * 2**20] * 2, b"small"])
    await until(lambda: reasons_of_rows(a) == ["SEMQ-1203"] * 2)
    await until(lambda: len(reads) == 2)  # the payloads of the large rows are not read and do not count


def test_a_read_that_fails_is_logged_and_repeated_by_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    trio = Trio()
    write_rows(trio, "56001")
    submissions = SqlSubmissions(trio.a.engine_handle, lambda: None)

    def fail(work: Work, unit: Unit) -> None:
        raise DecisionFailed

    with monkeypatch.context() as patch, capture_logs() as lines:
        patch.setattr(Work, "decide", fail)
        submissions.poll()
        trio.settle()
    assert [line["event"] for line in lines] == ["submissions_not_read"]
    submissions.poll()
    trio.settle()
    assert trio.b.app.payloads == [b"x"]


# Newer versions of Python can read more arrays in arrays than AMQP can carry.
DEEP = {"SEMQ-1001"} if sys.version_info < (3, 12) else {"SEMQ-1001", "SEMQ-1102"}
HOSTILE = {
    # what they have | headers, codes of the refusal
    "a number of 5,001 digits": (f'{{"n": 1{"0" * 5_000}}}', {"SEMQ-1001"}),
    "an array in 1,499 arrays": (f'{{"n": {"[" * 1_500}{"]" * 1_500}}}', DEEP),
    "a text of 70 kB": (f'{{"n": "{"x" * 70_000}"}}', {"SEMQ-1105"}),
    "a text of 300 kB": (f'{{"n": "{"x" * 300_000}"}}', {"SEMQ-1105"}),
}
INSERT = """
    INSERT INTO tb_0031_submit (target, payload, app_key, save_fwd, ack2, order_key, content_type, headers)
    VALUES ('56001', 'x', '', 3, 1, '', '', %s::jsonb)"""


@pytest.mark.parametrize(("headers", "codes"), HOSTILE.values(), ids=HOSTILE)
async def test_headers_that_cannot_be_read_are_refused_and_the_node_continues(
    inprocess: InProcess, headers: str, codes: set[str]
) -> None:
    _, a = await inprocess.linked_pair()
    with psycopg.connect(a.store.url) as connection:
        connection.execute(INSERT, (headers,))
        connection.execute("SELECT semq_send('56001', 'good'::bytea)")
    await until(lambda: reasons_of_rows(a) in [[code] for code in codes])
    [code] = reasons_of_rows(a)
    assert a.engine_starts == 1
    admin = await inprocess.client(a)
    (refused,) = (await ask(admin, "failed.list"))["result"]["rows"]
    answer = await ask(admin, "failed.requeue", {"ids": [refused["id"]]})  # answered after the row is refused again
    assert (answer["result"]["requeued"], reasons_of_rows(a), a.engine_starts) == (0, [code], 1)
