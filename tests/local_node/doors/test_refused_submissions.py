"""A document that plain SQL handed over and the node refuses: seen wherever failures are looked for, and mended."""

from typing import Any

import psycopg
import pytest

from tests.service.inprocess import InProcess, ask, linked, until


@pytest.fixture
async def refused(inprocess: InProcess) -> Any:
    """A node with one refused submission, its administrator, and the row of ``failed.list``."""
    hub = await inprocess.platform()
    a = await inprocess.local("10008", hub.port)
    await linked(a)
    admin = await inprocess.client(a)
    with psycopg.connect(a.store.url) as connection:
        connection.execute("SELECT semq_send('99999', 'kept'::bytea, app_key => 'trade/order//S9', token => 'T9')")

    async def failed() -> Any:
        return (await ask(admin, "failed.list"))["result"]

    (row,) = await until(failed)
    return a, admin, row


async def test_it_is_in_every_list_in_which_failures_are_looked_for(refused: Any) -> None:
    _, admin, row = refused
    assert (row["outcome"], row["reason"][0], row["app_key"], row["token"]) == (
        "REJECTED", "SEMQ-1201", "trade/order//S9", "T9",
    )  # fmt: skip
    assert row["error"].startswith("SEMQ-1201")
    for name in ("S9", "trade/order//S9", row["lk0"], str(row["id"]), f"sql-{row['submission']}"):
        assert (await ask(admin, "failed.show", {"id": name}))["result"]["lk0"] == row["lk0"]
        assert (await ask(admin, "msg.show", {"id": name}))["result"]["stuck"]["cause"] == "SUBMISSION_REFUSED"
    (line,) = (await ask(admin, "msg.trace", {"id": "S9"}))["result"]["events"]
    assert (line["event"], line["side"], line["detail"][:9]) == ("REFUSED", "sender", "SEMQ-1201")
    told = (await ask(admin, "msg.trace", {"id": "S9", "parties": True}))["result"]
    assert (told["events"], told["unheard"]) == ([line], [])  # it never left, so nobody is asked
    assert (await ask(admin, "msg.body", {"id": "S9"}))["result"]["body_base64"] == "a2VwdA=="
    assert [one["lk0"] for one in (await ask(admin, "stuck.list"))["result"]] == [row["lk0"]]
    assert [one["lk0"] for one in (await ask(admin, "msg.list", {"state": "REJECTED"}))["result"]] == [row["lk0"]]
    health = (await ask(admin, "node.health"))["result"]
    (check,) = [check for check in health["checks"] if check["check"] == "submissions"]
    assert (health["verdict"], check["verdict"]) == ("warning", "warning")
    assert "refused (1)" in check["detail"]


async def test_acts_on_messages_say_that_it_was_not_accepted(refused: Any) -> None:
    """An inquiry by ``sql-NUMBER`` once stood in the schedule as text, and stopped all inquiries of the node."""
    a, admin, row = refused
    with psycopg.connect(a.store.url) as connection:
        statement = "SELECT semq_send('56001', 'x'::bytea, app_key => '/order//WAITS', encrypt => true)"
        (number,) = connection.execute(statement).fetchone() or ()
    names = {f"sql-{row['submission']}", "S9", row["lk0"], row["name"], f"sql-{number}", "WAITS"}
    for operation in ("msg.inquire", "msg.cancel", "msg.hold", "msg.release", "msg.resend"):
        for name in names:
            answer = await ask(admin, operation, {"id": name, "why": "because"})
            assert (name, answer["error"]["code"]) == (name, "SEMQ-1224")


async def test_the_application_reads_its_fate_by_number_and_by_token(refused: Any) -> None:
    a, _, row = refused
    with psycopg.connect(a.store.url) as connection:
        for named in (row["submission"], "T9"):
            found = connection.execute("SELECT * FROM semq_status(%s)", (named,)).fetchall()
            assert [(one[0], one[1], one[2], one[3]) for one in found] == [
                (row["submission"], row["lk0"], "REFUSED", "SEMQ-1201")
            ]
        assert connection.execute("SELECT * FROM semq_status(4711)").fetchall() == []


async def test_it_is_sent_after_the_mend_and_told_to_its_end(inprocess: InProcess, refused: Any) -> None:
    a, admin, row = refused
    a.engine.partners.allowed["1.99999"] = True  # as if the hub had named it
    assert (await ask(admin, "failed.requeue", {"ids": [row["lk0"]], "why": "it exists now"}))["result"] == {
        "requeued": 1
    }

    def status() -> Any:
        with psycopg.connect(a.store.url) as connection:
            found = connection.execute("SELECT lk0, state FROM semq_status(%s)", (row["submission"],)).fetchall()
        return found if found and found[0][1] not in ("REFUSED", "SUBMITTED") else None

    ((lk0, _),) = await until(status)
    assert lk0 != row["lk0"]
    assert (await ask(admin, "failed.show", {"id": row["lk0"]}))["error"]["code"] == "SEMQ-1207"
    events = (await ask(admin, "msg.trace", {"id": row["lk0"]}))["result"]["events"]
    assert [line["event"] for line in events] == ["REFUSED", "OPERATOR"]
    assert events[1]["detail"] == "to be tried again: it exists now"


async def test_it_goes_when_a_person_removes_it_and_the_ledger_keeps_its_story(refused: Any) -> None:
    a, admin, row = refused
    assert (await ask(admin, "failed.remove", {"ids": [row["lk0"]], "why": "a test"}))["result"] == {"removed": 1}
    assert (await ask(admin, "failed.remove", {"ids": [row["lk0"]]}))["error"]["code"] == "SEMQ-1207"
    assert (await ask(admin, "failed.list"))["result"] == []
    assert [line["event"] for line in (await ask(admin, "msg.trace", {"id": "S9"}))["result"]["events"]] == [
        "REFUSED", "OPERATOR",
    ]  # fmt: skip
    with psycopg.connect(a.store.url) as connection:
        assert connection.execute("SELECT count(*) FROM tb_0031_submit").fetchone() == (0,)


async def test_what_must_wait_says_so_to_the_application_and_to_people(inprocess: InProcess) -> None:
    hub = await inprocess.platform()
    a = await inprocess.local("10008", hub.port)
    await linked(a)
    admin = await inprocess.client(a)
    with psycopg.connect(a.store.url) as connection:
        sent = "SELECT semq_send('56001', 'x'::bytea, app_key => 'a/b//K1', encrypt => true)"
        (number,) = connection.execute(sent).fetchone() or (0,)

    def status() -> Any:
        with psycopg.connect(a.store.url) as connection:
            found = connection.execute("SELECT state, reason_code FROM semq_status(%s)", (number,)).fetchone()
        return found if found != ("SUBMITTED", None) else None

    found = await until(status)
    assert found in (("WAITS", "SEMQ-5207"), ("REFUSED", "SEMQ-5207"))
    (row,) = (await ask(admin, "stuck.list"))["result"]
    assert (row["reason"][0], row["submission"]) == ("SEMQ-5207", number)
    assert row["stuck"]["cause"] in ("SUBMISSION_WAITS", "SUBMISSION_REFUSED")
    (check,) = [
        check for check in (await ask(admin, "node.health"))["result"]["checks"] if check["check"] == "submissions"
    ]
    assert check["verdict"] == "warning"
