"""Acts on messages; short names at sender and hub; submissions by SQL: awaited, requeued, withdrawn."""

import re
from uuid import uuid4

import psycopg
import pytest

from tests.app.network import ABSENT, Network
from tests.cli.command import semq
from tests.waiting import until_sync


def test_a_message_can_be_cancelled_with_a_reason_in_the_ledger(network: Network) -> None:
    at = ["--node", network.sender.url, "--json"]
    lk0 = semq("msg", "send", "--to", ABSENT, *at, stdin=b"x").data["lk0"]
    for why in ("ordered twice", "still not wanted"):  # the second one sends the void marker again
        assert semq("msg", "cancel", lk0, "--why", why, *at).data["lk0"] == lk0
    events = semq("msg", "trace", lk0, "--here", *at).data["events"]
    assert [line["detail"] for line in events if line["event"] == "VOIDED"] == [
        "ordered twice (by app)", "still not wanted (by app)",
    ]  # fmt: skip


def test_the_ledger_and_the_audit_log_name_the_person_who_runs_the_command(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ["--node", network.sender.url, "--json"]
    lk0 = semq("msg", "send", "--to", ABSENT, *at, stdin=b"x").data["lk0"]
    monkeypatch.setenv("SUDO_USER", "maria")
    semq("msg", "cancel", lk0, "--why", "ordered twice", *at)
    events = semq("msg", "trace", lk0, "--here", *at).data["events"]
    assert [line["detail"] for line in events if line["event"] == "VOIDED"] == ["ordered twice (by maria via app)"]
    assert semq("audit", "list", "--act", "msg.cancel", *at).data[0]["who"] == "maria via app"
    monkeypatch.setenv("SUDO_USER", "app")  # the node's user is this person
    semq("msg", "cancel", lk0, "--why", "again", *at)
    assert semq("audit", "list", "--act", "msg.cancel", *at).data[0]["who"] == "app"


def test_a_sent_message_cannot_be_held(network: Network) -> None:
    lk0 = semq("msg", "send", "--to", ABSENT, "--node", network.sender.url, "--json", stdin=b"x").data["lk0"]
    wait_until_stored_at_hub(network, lk0)
    semq("msg", "hold", lk0, "--node", network.sender.url).fails(1, "SEMQ-1226", "msg cancel")


def wait_until_stored_at_hub(network: Network, lk0: str) -> None:
    until_sync(lambda: lk0 in semq("held", "list", "--target", ABSENT, "--node", network.hub.url, "--json").out)


def test_a_message_can_be_sent_again(network: Network) -> None:
    at = ["--node", network.sender.url, "--json"]
    lk0 = semq("msg", "send", "--to", ABSENT, *at, stdin=b"x").data["lk0"]
    assert semq("msg", "resend", lk0, "--why", "partner asked", *at).status == 0
    events = semq("msg", "trace", lk0, "--here", *at).data["events"]
    assert any("partner asked" in line["detail"] for line in events)


def test_commands_accept_the_short_name_at_sender_and_hub(network: Network) -> None:
    at = ["--node", network.sender.url]
    result = semq("msg", "send", "--to", ABSENT, *at, stdin=b"short").out
    name = result.split()[0]
    assert result == f"{name}  accepted\n"
    assert len(name) <= 14
    lk0 = semq("msg", "show", name, "--json", *at).data["lk0"]
    hub = ["--node", network.hub.url]
    for node in (at, hub):
        shown = semq("msg", "show", name.lower(), "--json", *node).data
        assert (shown["name"], shown["lk0"]) == (name, lk0)
        assert semq("msg", "trace", name, "--json", *node).data["lk0"] == lk0
        assert semq("msg", "body", name, *node).out == "short"
        assert semq("stuck", "explain", name, "--json", *node).data["message"]["lk0"] == lk0
    assert name in semq("msg", "list", *at).out
    assert name in semq("held", "list", *hub).out
    for command in ("inquire", "resend", "cancel"):
        assert semq("msg", command, name, *at).out.startswith(name)
    mistyped = name[:-1] + ("0" if name[-1] != "0" else "1")
    semq("msg", "show", mistyped, *at).fails(1, "SEMQ-1207")
    assert semq("held", "resend", name, "--why", "test", *hub).status == 0


def test_an_act_on_an_ended_message_is_refused_with_outcome_and_time(network: Network) -> None:
    at = ["--node", network.sender.url]
    words = ["--to", "56001/late", "--wait", "delivered", "--timeout", "60"]
    name = semq("msg", "send", *words, *at, stdin=b"done").out.split()[0]
    semq("msg", "receive", "--user", "late", "--timeout", "60", "--node", network.receiver.url)
    for node in (network.sender.url, network.receiver.url):
        while "cleaned" not in semq("msg", "show", name, "--json", "--node", node).data:
            pass  # the row is deleted by the next cleanup
    for command in ("cancel", "hold", "release", "resend", "inquire", "body"):
        result = semq("msg", command, name, *at)
        result.fails(1, "SEMQ-1208", "DELIVERED")
        assert re.search(r"ended_at='\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00'", result.err)
    shown = semq("msg", "show", name, *at).out
    assert re.search(r"^outcome +DELIVERED", shown, re.MULTILINE)
    assert re.search(r"^ended_at +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$", shown, re.MULTILINE)
    assert "It is not stuck: it ended DELIVERED" in semq("stuck", "explain", name, *at).out
    semq("held", "resend", name, "--why", "x", "--node", network.hub.url).fails(1, "SEMQ-1208", "FORWARDED")
    semq("msg", "cancel", name, "--node", network.receiver.url).fails(1, "SEMQ-1208", "DONE")


def submitted_by_sql(network: Network, target: str, more: str = "") -> int:
    """Submit a document by SQL at the sender; return its number. ``more``: further arguments of semq_send."""
    with psycopg.connect(network.sender.database) as connection:
        found = connection.execute(f"SELECT semq_send('{target}', 'x'::bytea, app_key => 'a/b/c/{uuid4()}'{more})")
        return int((found.fetchone() or (0,))[0])


def test_a_submission_by_sql_can_be_awaited_by_its_number(network: Network) -> None:
    number = submitted_by_sql(network, "56001")
    result = semq("msg", "wait", f"sql-{number}", "--timeout", "60", "--node", network.sender.url)
    assert (result.status, result.out.split()[1:]) == (0, ["delivered"])
    refused = submitted_by_sql(network, "99999")
    semq("msg", "wait", f"sql-{refused}", "--timeout", "60", "--node", network.sender.url).fails(
        1, "SEMQ-1320", "SEMQ-1201"
    )


def test_a_refused_submission_shows_its_new_name_after_a_requeue(network: Network) -> None:
    at, name = ["--node", network.sender.url], f"sql-{submitted_by_sql(network, '99999')}"
    until_sync(lambda: not short_name_of(network, name).startswith("sql-"))
    old = short_name_of(network, name)
    requeued = semq("failed", "requeue", name, "--why", "once more", *at)
    new = short_name_of(network, name)
    reason = "SEMQ-1201 The hub knows no such institution, or it is no partner of this one."
    assert requeued.status == 1
    assert requeued.out.splitlines() == [
        f"{old}  is refused again as {new}: {reason}", "0 documents requeued, 1 refused again",
    ]  # fmt: skip
    assert short_name_of(network, old) == new != old
    traced = semq("msg", "trace", old, *at)
    assert traced.out.count("  1.10008  ") == len(traced.out.splitlines())  # also without lines of other nodes
    assert (traced.out.count("REFUSED"), traced.err) == (
        2, f"earlier names, under which it was refused or scheduled: {old}\n"
    )  # fmt: skip
    assert semq("failed", "remove", old, *at).out == "1 document removed\n"
    assert short_name_of(network, name) == new


def short_name_of(network: Network, name: str) -> str:
    """Return the short name that ``msg show`` states for any name of a message, such as sql-7."""
    return str(semq("msg", "show", name, "--json", "--node", network.sender.url).data["name"])


def test_a_submission_that_waits_is_withdrawn(network: Network) -> None:
    at, name = ["--node", network.sender.url], f"sql-{submitted_by_sql(network, '56001', ', encrypt => true')}"
    until_sync(lambda: "WAITS" in semq("msg", "show", name, *at).out)
    assert semq("msg", "cancel", name, "--why", "ordered twice", *at).out == f"{name}  is withdrawn; it was not sent\n"
    shown = semq("msg", "show", name, *at).out
    assert "SEMQ-1210 Withdrawn before it was sent: ordered twice" in shown
    semq("msg", "cancel", name, *at).fails(1, "SEMQ-1208", "it was not sent")
