"""SQL submissions that the node refuses, or that wait: shown in every view, tried again, removed, withdrawn."""

from functools import partial
from typing import Any

import msgspec
import psycopg
import pytest

from local_node.doors.refused_submissions import withdraw
from local_node.doors.sql_submissions import SqlSubmissions
from local_node.node import LocalNode
from semq.engine.errors import NotThere
from semq.store.rows import Submitted
from semq.transport.client import ClientLink
from semq.umx_t.short_name import short_name
from tests.flows.trio import Trio
from tests.local_node.doors.test_sql_submissions import status_of
from tests.service.inprocess import InProcess, ask
from tests.waiting import until


async def collect_events(inprocess: InProcess, node: LocalNode) -> list[dict[str, Any]]:
    """Begin to consume; return a list to which the events of a node are added as they arrive."""
    received: list[dict[str, Any]] = []
    channel = await (await inprocess.client(node)).open_channel()
    queue = (await channel.declare_queue(exclusive=True)).queue
    await channel.bind_queue(queue, "semq.events", "#")
    await channel.consume(
        queue, lambda batch: received.extend(msgspec.json.decode(delivered.body) for delivered in batch), no_ack=True
    )
    return received


async def submit_by_sql(inprocess: InProcess, arguments: str) -> Any:
    """Submit a document by ``semq_send``; return the node, a link of its administrator, and the number."""
    _, a = await inprocess.linked_pair()
    with psycopg.connect(a.store.url) as connection:
        (number,) = connection.execute(f"SELECT semq_send({arguments})".encode()).fetchone() or (0,)
    return a, await inprocess.client(a), number


@pytest.fixture
async def refused(inprocess: InProcess) -> Any:
    """Return a node with one refused submission, a link of its administrator, and the row of ``failed.list``."""
    a, admin, _ = await submit_by_sql(inprocess, "'99999', 'kept'::bytea, app_key => 'trade/order//S9', token => 'T9'")

    async def failed() -> Any:
        return (await ask(admin, "failed.list"))["result"]["rows"]

    (row,) = await until(failed)
    return a, admin, row


async def test_a_refused_submission_is_in_every_list_of_failures_and_acts_on_it_are_refused(refused: Any) -> None:
    a, admin, row = refused
    assert (row["outcome"], row["reason"][0], row["app_key"], row["token"]) == (
        "REJECTED", "SEMQ-1201", "trade/order//S9", "T9",
    )  # fmt: skip
    assert row["error"].startswith("SEMQ-1201")
    for name in ("S9", "trade/order//S9", row["lk0"], str(row["id"]), f"sql-{row['submission']}"):
        assert (await ask(admin, "failed.show", {"id": name}))["result"]["lk0"] == row["lk0"]
        assert (await ask(admin, "msg.show", {"id": name}))["result"]["stuck"]["cause"] == "SUBMISSION_REFUSED"
    (line,) = (await ask(admin, "msg.trace", {"id": "S9"}))["result"]["events"]
    assert (line["event"], line["side"], line["detail"][:9]) == ("REFUSED", "sender", "SEMQ-1201")
    answer = (await ask(admin, "msg.trace", {"id": "S9", "parties": True}))["result"]
    assert answer["events"] == [{"node": "1.10008", **line}]
    assert answer["unanswered"] == []  # no other node knows the submission
    assert (await ask(admin, "msg.body", {"id": "S9"}))["result"]["body_base64"] == "a2VwdA=="
    assert [stuck["lk0"] for stuck in (await ask(admin, "stuck.list"))["result"]["rows"]] == [row["lk0"]]
    assert [listed["lk0"] for listed in (await ask(admin, "msg.list", {"state": "REJECTED"}))["result"]["rows"]] == [
        row["lk0"]
    ]
    health = (await ask(admin, "node.health"))["result"]
    (check,) = [check for check in health["checks"] if check["check"] == "submissions"]
    assert (health["verdict"], check["verdict"]) == ("warning", "warning")
    assert "refused (1)" in check["detail"]
    with psycopg.connect(a.store.url) as connection:
        for number_or_token in (row["submission"], "T9"):
            status = connection.execute("SELECT * FROM semq_status(%s)", (number_or_token,)).fetchone() or ()
            assert status[:4] == (row["submission"], row["lk0"], "REFUSED", "SEMQ-1201")
        assert connection.execute("SELECT * FROM semq_status(4711)").fetchall() == []
    # An inquiry about ``sql-NUMBER`` must not enter the schedule of inquiries, where it would stop all others.
    with psycopg.connect(a.store.url) as connection:
        statement = "SELECT semq_send('56001', 'x'::bytea, app_key => '/order//WAITS', encrypt => true)"
        (number,) = connection.execute(statement).fetchone() or ()
    names, waiting = {f"sql-{row['submission']}", "S9", row["lk0"], row["name"]}, {f"sql-{number}", "WAITS"}
    for operation in ("msg.inquire", "msg.cancel", "msg.hold", "msg.release", "msg.resend"):
        # a waiting submission can be withdrawn
        for name in names if operation == "msg.cancel" else names | waiting:
            answer = await ask(admin, operation, {"id": name})
            assert (name, answer["error"]["code"]) == (name, "SEMQ-1224")


async def test_pages_of_refused_submissions_are_filtered_and_counted_alike(refused: Any) -> None:
    a, admin, _ = refused
    with psycopg.connect(a.store.url) as connection:
        for key in ("invoice//S10", "order//S11", "order//S12"):
            connection.execute("SELECT semq_send('99999', 'x'::bytea, app_key => %s)", (f"trade/{key}",))
    own = {"target": "10008", "app_key": "trade/order//P", "body_base64": "eA=="}
    for _ in range(2):
        await ask(admin, "msg.submit", own)
    rows = await until(partial(inbound_rows, admin, 2))
    for row in rows:
        await ask(admin, "failed.park", {"id": row["lk0"], "error": "cannot be read"})

    async def page_with_all() -> Any:
        page = (await ask(admin, "failed.list", {"limit": 4}))["result"]
        return page if page["of"] == 6 else None

    page = await until(page_with_all)
    following = (await ask(admin, "failed.list", {"limit": 4, **page["next"]}))["result"]
    assert (len(page["rows"]), len(following["rows"]), following["next"], following["of"]) == (4, 2, None, 6)
    chosen = {"cause": "SUBMISSION_REFUSED", "type": "order", "limit": 2}
    first = (await ask(admin, "stuck.list", chosen))["result"]
    second = (await ask(admin, "stuck.list", chosen | first["next"]))["result"]
    assert [row["app_key"][-3:] for row in first["rows"] + second["rows"]] == ["/S9", "S11", "S12"]
    assert second["next"] is None
    for filters, count in (
        ({"state": "rejected"}, 3), ({"state": "REFUSED"}, 3), ({"state": "WAITS"}, 0), ({"mark": "held"}, 0),
        ({"source": "10008"}, 0), ({"code": "SEMQ-1201"}, 3), ({"code": "SEMQ-5207"}, 0),
    ):  # fmt: skip
        found = (await ask(admin, "stuck.list", chosen | filters | {"limit": 9}))["result"]["rows"]
        assert (filters, len(found)) == (filters, count)


async def inbound_rows(admin: ClientLink, count: int) -> Any:
    """Return the received documents when there are ``count``; None before."""
    rows = (await ask(admin, "msg.list", {"side": "inbound"}))["result"]["rows"]
    return rows if len(rows) == count else None


async def test_a_waiting_document_is_shown_and_can_be_withdrawn(inprocess: InProcess) -> None:
    arguments = "'56001', 'x'::bytea, app_key => 'a/b//W1', encrypt => true, token => 'TW'"  # waits for a certificate
    a, admin, number = await submit_by_sql(inprocess, arguments)
    await until(lambda: status_of(a, [number])[0][:2] == ("WAITS", "SEMQ-5207"))
    await check_views_of_waiting(admin, number)
    events = await collect_events(inprocess, a)
    answer = (await ask(admin, "msg.cancel", {"id": f"sql-{number}", "why": "ordered twice"}))["result"]
    assert (answer["withdrawn"], answer["name"]) == (True, f"sql-{number}")
    ((state, code, text, _),) = status_of(a, [number])
    assert (state, code, text) == (
        "CANCELLED",
        "SEMQ-1210",
        "Withdrawn before it was sent: ordered twice (by guest)",
    )
    (event,) = await until(lambda: events)
    assert (event["event"], event["outcome"], event["submission"], event["token"]) == (
        "failed", "CANCELLED", number, "TW",
    )  # fmt: skip
    for name in (f"sql-{number}", answer["lk0"], short_name(answer["lk0"]), "W1"):
        (line,) = (await ask(admin, "msg.trace", {"id": name, "parties": True}))["result"]["events"]
        assert (line["event"], line["detail"]) == ("REFUSED", f"{code} {text}")
        shown = (await ask(admin, "msg.show", {"id": name}))["result"]
        assert (shown["outcome"], shown["reason"]) == ("CANCELLED", f"{code} {text}")
        late = (await ask(admin, "msg.cancel", {"id": name}))["error"]
        assert (late["code"], late["facts"]["outcome"]) == ("SEMQ-1208", "CANCELLED")
        assert "it was not sent" in late["text"]
    assert (await ask(admin, "stuck.list"))["result"]["rows"] == []
    with psycopg.connect(a.store.url) as connection:
        assert connection.execute("SELECT count(*) FROM tb_0031_submit").fetchone() == (0,)


async def check_views_of_waiting(admin: ClientLink, number: int) -> None:
    """Check that a waiting document is found by each of its names, and in every list."""
    for name in (f"sql-{number}", "W1", "a/b//W1"):
        shown = (await ask(admin, "msg.show", {"id": name}))["result"]
        assert (shown["name"], shown["state"], shown["reason"][0]) == (f"sql-{number}", "WAITS", "SEMQ-5207")
        answer = (await ask(admin, "msg.trace", {"id": name, "parties": True}))["result"]
        assert [(line["event"], line["detail"][:9]) for line in answer["events"]] == [
            ("SUBMITTED", ""), ("WAITS", "SEMQ-5207"),
        ]  # fmt: skip
        assert (answer["unanswered"], answer["events"][1]["at"]) == ([], shown["waits_since"])
        explained = (await ask(admin, "stuck.explain", {"id": name}))["result"]
        assert [line["event"] for line in explained["last_events"]] == ["SUBMITTED", "WAITS"]
        assert (await ask(admin, "msg.body", {"id": name}))["result"]["body_base64"] == "eA=="
        for operation in ("failed.show", "msg.prove"):
            assert (await ask(admin, operation, {"id": name}))["error"]["code"] == "SEMQ-1224"
    assert [row["state"] for row in (await ask(admin, "msg.list"))["result"]["rows"]] == ["WAITS"]
    assert (await ask(admin, "msg.list", {"state": "SUBMITTED"}))["result"]["rows"] == []
    assert (await ask(admin, "failed.list"))["result"]["rows"] == []
    (row,) = (await ask(admin, "stuck.list"))["result"]["rows"]
    assert (row["reason"][0], row["submission"]) == ("SEMQ-5207", number)
    assert row["stuck"]["cause"] == "SUBMISSION_WAITS"
    for code, count in ("SEMQ-5207", 1), ("SEMQ-1201", 0):
        waiting = {"cause": "SUBMISSION_WAITS", "code": code}
        assert len((await ask(admin, "stuck.list", waiting))["result"]["rows"]) == count
        assert len((await ask(admin, "msg.list", {"code": code}))["result"]["rows"]) == count
    (check,) = [
        check for check in (await ask(admin, "node.health"))["result"]["checks"] if check["check"] == "submissions"
    ]
    assert check["verdict"] == "warning"


async def test_a_requeued_submission_is_sent_and_found_by_its_old_names(refused: Any) -> None:
    a, admin, row = refused
    a.engine.partners.allowed["1.99999"] = True  # as if the hub had introduced the institution
    answer = (await ask(admin, "failed.requeue", {"ids": [row["lk0"]], "why": "it exists now"}))["result"]
    new = answer["became"][row["lk0"]]
    assert (answer["requeued"], new["state"], new["submission"]) == (1, "accepted", row["submission"])
    assert new["lk0"] != row["lk0"]
    assert new["name"] == short_name(new["lk0"])
    with psycopg.connect(a.store.url) as connection:
        status = connection.execute("SELECT lk0 FROM semq_status(%s)", (row["submission"],)).fetchall()
    assert status == [(new["lk0"],)]
    for name in (row["lk0"], row["name"], f"sql-{row['submission']}", new["name"], "S9"):  # all denote the document
        assert (await ask(admin, "msg.show", {"id": name}))["result"]["lk0"] == new["lk0"]
        traced = (await ask(admin, "msg.trace", {"id": name}))["result"]
        assert (traced["lk0"], traced["before"], traced["others"]) == (new["lk0"], [row["lk0"]], [])
        assert [line["event"] for line in traced["events"]][:3] == ["REFUSED", "OPERATOR", "ACCEPTED"]
        assert traced["events"][1]["detail"] == "to be tried again: it exists now (by guest)"


async def test_a_document_that_is_refused_again_is_shown_under_its_new_name(refused: Any) -> None:
    _, admin, row = refused
    answer = (await ask(admin, "failed.requeue", {"ids": [row["lk0"]]}))["result"]
    new = answer["became"][row["lk0"]]
    assert (new["state"], new["reason"][0]) == ("refused", "SEMQ-1201")
    assert new["lk0"] != row["lk0"]
    assert (await ask(admin, "failed.show", {"id": row["name"]}))["result"]["lk0"] == new["lk0"]
    events = (await ask(admin, "msg.trace", {"id": row["name"]}))["result"]["events"]
    assert [(line["event"], line["detail"][:17]) for line in events] == [
        ("REFUSED", "SEMQ-1201 The hub"), ("OPERATOR", "to be tried again"), ("REFUSED", "SEMQ-1201 The hub"),
    ]  # fmt: skip


@pytest.mark.parametrize("operation", ["failed.requeue", "failed.remove"])
async def test_an_act_on_several_documents_counts_those_that_are_still_there(refused: Any, operation: str) -> None:
    _, admin, row = refused
    submitted = {"target": "10008", "app_key": "trade/order//parked", "body_base64": "eA=="}
    name = (await ask(admin, "msg.submit", submitted))["result"]["lk0"]

    async def is_parked() -> bool:
        return bool((await ask(admin, "failed.park", {"id": name}))["ok"])

    await until(is_parked)
    failed = (await ask(admin, "failed.list"))["result"]["rows"]
    (parked,) = [listed["id"] for listed in failed if listed["lk0"] == name]
    gone, unreadable = "1.10008.1.1.aa.999", "1.x"
    for ids in [parked, row["lk0"], unreadable], [gone, gone]:
        assert not (await ask(admin, operation, {"ids": ids}))["ok"]
    still = (await ask(admin, "failed.list"))["result"]["rows"]
    assert [listed["id"] for listed in still] == [listed["id"] for listed in failed]  # an error: nothing was done
    verb = operation.partition(".")[2]
    for ids in [gone, parked], [row["lk0"], gone, parked]:
        assert (await ask(admin, operation, {"ids": ids}))["result"][f"{verb}d"] == 1


async def test_a_removed_submission_stays_in_the_ledger(refused: Any) -> None:
    a, admin, row = refused
    assert (await ask(admin, "failed.remove", {"ids": [row["lk0"]], "why": "a test"}))["result"] == {"removed": 1}
    assert (await ask(admin, "failed.remove", {"ids": [row["lk0"]]}))["error"]["code"] == "SEMQ-1207"
    assert (await ask(admin, "failed.list"))["result"]["rows"] == []
    assert [line["event"] for line in (await ask(admin, "msg.trace", {"id": "S9"}))["result"]["events"]] == [
        "REFUSED", "OPERATOR",
    ]  # fmt: skip
    number = row["submission"]
    assert status_of(a, [number])[0][:2] == ("REFUSED", "SEMQ-1201")  # for as long as tokens are kept
    for name in (f"sql-{number}", row["lk0"], row["name"]):
        shown = (await ask(admin, "msg.show", {"id": name}))["result"]
        assert (shown["lk0"], shown["outcome"], shown["reason"][:9]) == (row["lk0"], "REJECTED", "SEMQ-1201")
    with psycopg.connect(a.store.url) as connection:
        assert connection.execute("SELECT count(*) FROM tb_0031_submit").fetchone() == (0,)


def test_a_submission_that_the_same_unit_has_taken_is_not_withdrawn() -> None:
    trio = Trio()
    tables = trio.a.store.tables
    tables.submitted[1] = Submitted(1, "56001", b"x", "", 3, 1, "", "", "", "{}")
    SqlSubmissions(trio.a.engine_handle, lambda: None).poll()
    trio.a.store.run()  # found; its acceptance is in the next unit
    withdrawn: list[object] = []
    failed: list[Exception] = []
    core = trio.a.engine.core
    core.post(withdraw(core, 1, "", withdrawn.append), failed=failed.append)
    trio.settle()
    assert (withdrawn, [type(error) for error in failed]) == ([], [NotThere])
    assert trio.b.app.payloads == [b"x"]
    assert not [event for event in trio.a.reported.events if event.outcome == "CANCELLED"]
