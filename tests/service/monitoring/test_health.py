"""The health checks of a node."""

from typing import Any

import pytest
from msgspec import convert

from platform_node.node import HubNode
from semq.answers.status import Check, NodeStatus
from semq.datagrams.session import NO_LINK
from semq.service.monitoring.health import checks as checks_of
from semq.service.monitoring.health import health
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until

STATUS: dict[str, Any] = {
    "node": "1.10008", "kind": "local", "store_open": True, "counters": {"accepted": 3}, "amqp": {"connections": 1},
    "store": {"units": 2, "load_s": 0.5}, "waiting_work": 0,
    "hub": {"link": "up", "last_error": ""}, "partners": {"1.56001": {"online": False}},
    "certificate": {"state": "ok", "days_left": 61.5, "renew_at": "2031-01-01"},
}  # fmt: skip
NO_DATAGRAMS = {"documents": 0, "lost": 0, "full": 0}
VIOLATIONS = [
    {
        "who": f"1.{n}", "what": "SEMQ-5209", "count": 300 - n, "first": 0, "last": 1_790_000_000_000,
        "text": "It is not signed.",
    }
    for n in range(7)
]  # fmt: skip


def checks(status: dict[str, Any]) -> list[Check]:
    """Return the checks of a status whose other fields have their defaults."""
    return checks_of(convert(status, NodeStatus), 14.0)


def status_with(**parts: Any) -> dict[str, Any]:
    return STATUS | {name: STATUS.get(name, {}) | part for name, part in parts.items()}


def with_webhooks(*, running: bool = True, **failing: dict[str, Any]) -> dict[str, Any]:
    """Return the status of a node with failing webhooks."""
    state = {"failures": 7, "since": 1_790_000_000_000, "error": "away"}
    result = {name: state | facts for name, facts in failing.items()}
    return STATUS | {"companions": {"webhooks": {"running": running, "starts": 1, "exit": 78, "failing": result}}}


def test_health_names_failing_webhooks_and_the_start_of_the_failures() -> None:
    [check] = [check for check in checks(with_webhooks(erp={"is_paused": True})) if check.name == "webhooks"]
    assert check.detail == "erp: 7 failures in a row since 2026-09-21T14:13:20+00:00, paused: away"
    many: dict[str, Any] = {str(number): {"is_paused": False} for number in range(7)}
    [check] = [check for check in checks(with_webhooks(**many)) if check.name == "webhooks"]
    assert check.detail.endswith("; 2 more in node.status")


@pytest.mark.parametrize(("status", "detail"), [(78, "ended with status 78"), (None, "has not started yet")])
def test_a_companion_that_does_not_run_has_ended_or_not_started(status: int | None, detail: str) -> None:
    node_status = with_webhooks(running=False)
    node_status["companions"]["webhooks"]["exit"] = status
    [check] = [check for check in checks(node_status) if check.name == "webhooks"]
    assert detail in check.detail


def with_datagram_path(**facts: Any) -> dict[str, Any]:
    """Return a status with a closed path for datagrams, for which documents came; ``facts`` replace values."""
    closed = {"state": "closed", "why": "blocked", "not_open": 3, "not_open_now": 1}
    return STATUS | {
        "datagrams": {"peers": {"2.hub": closed | {"recent_here": NO_DATAGRAMS, "recent_there": NO_DATAGRAMS} | facts}}
    }


def with_datagram_loss(direction: str, documents: int, lost: int, full: int = 0) -> dict[str, Any]:
    """Return a status with an open path and these documents of the last minutes.

    ``direction``: the end that counted them, ``here`` or ``there``. ``full``: those dropped there for lack of room.
    """
    return with_datagram_path(
        state="open", why="", **{f"recent_{direction}": {"documents": documents, "lost": lost, "full": full}}
    )


@pytest.mark.parametrize(
    ("status", "verdict", "check"),
    [
        (STATUS, "ok", ""),
        (status_with(certificate={"state": "renew"}), "ok", ""),
        (with_webhooks(), "ok", ""),
        (STATUS | {"drained": False}, "ok", ""),
        (STATUS | {"drained": True}, "warning", "intake"),
        (with_webhooks(running=False), "failing", "webhooks"),
        (with_webhooks(erp={"is_paused": False}), "warning", "webhooks"),
        (with_webhooks(crm={"is_paused": False}, erp={"is_paused": True}), "failing", "webhooks"),
        (status_with(certificate={"state": "ending"}), "warning", "certificate"),
        (status_with(certificate={"state": "expired"}), "failing", "certificate"),
        (status_with(certificates={"1.56001": 9.0}), "warning", "certificates"),
        (status_with(certificates={"1.56001": 15.0}), "ok", ""),
        (status_with(hub={"link": "down", "last_error": "SEMQ-1"}), "failing", "link"),
        (STATUS | {"store_open": False}, "failing", "store"),
        (status_with(store={"went_back": 1}), "warning", "store"),
        (STATUS | {"shortage": "low on disk"}, "warning", "resources"),
        (with_datagram_path(), "warning", "datagrams"),
        (with_datagram_path(not_open_now=0), "ok", ""),
        (with_datagram_loss("there", 1000, 100), "ok", ""),
        (with_datagram_loss("there", 1000, 101), "warning", "datagrams"),
        (with_datagram_loss("here", 1000, 101), "warning", "datagrams"),
        (with_datagram_loss("there", 1000, 60, 60), "warning", "datagrams"),
        (with_datagram_loss("there", 99, 99), "ok", ""),
        (with_datagram_path(why=NO_LINK), "ok", ""),
        (with_datagram_path(state="open"), "ok", ""),
        (status_with(partners={"1.56001": {"online": True, "quota_reached": True}}), "warning", "quotas"),
        (status_with(extract={"at": "2031-01-01", "exit_status": 78, "output": "SEMQ-6008"}), "warning", "extract"),
        (status_with(extract={"at": "2031-01-01", "exit_status": 0, "output": ""}), "ok", ""),
        (status_with(telemetry={"failures": 2, "failing_since": 1, "dropped": 0, "last_error": "x"}), "ok", ""),
        (
            status_with(telemetry={"failures": 3, "failing_since": 1, "dropped": 0, "last_error": "x"}),
            "warning",
            "telemetry",
        ),
        (STATUS | {"violations": VIOLATIONS}, "warning", "violations"),
        (STATUS | {"violations": []}, "ok", ""),
    ],
)
def test_the_verdict_of_a_node_is_the_verdict_of_its_worst_check(
    status: dict[str, Any], verdict: str, check: str
) -> None:
    result = health("1.10008", checks(status))
    assert result.verdict == verdict
    assert [row.name for row in result.checks if row.verdict != "ok"] == ([check] if check else [])


def test_the_check_of_datagrams_has_the_loss_and_a_remedy() -> None:
    [detail] = [
        check.detail for check in checks(with_datagram_loss("there", 1200, 144, 60)) if check.name == "datagrams"
    ]
    assert detail == (
        "2.hub: 12% of 1200 documents to it in 5 minutes lost, and 5% dropped by the receiver for lack of room: "
        "send fewer, or with @Reliable=1"
    )


def test_the_check_of_datagrams_lists_at_most_five_peers() -> None:
    [peer] = with_datagram_path()["datagrams"]["peers"].values()
    status = STATUS | {"datagrams": {"peers": {f"1.{number}": peer for number in range(7)}}}
    [detail] = [check.detail for check in checks(status) if check.name == "datagrams"]
    assert detail.endswith("; 1.4: blocked; 2 more in node.status")


def test_violations_are_listed_by_peer_kind_and_count() -> None:
    (check,) = [check for check in checks(STATUS | {"violations": VIOLATIONS}) if check.name == "violations"]
    first, *_, last = check.detail.split("; ")
    assert first == "1.0: SEMQ-5209 300 times, last 2026-09-21T14:13:20+00:00 (It is not signed.)"
    assert last == "2 more in node.status"


async def test_a_hub_warns_of_ending_certificates_and_a_node_without_its_hub_fails(inprocess: InProcess) -> None:
    hub: HubNode = await inprocess.secure_hub("[tls]\ncertificate_days = 10\n")
    a = await inprocess.secure_local("10008", hub)
    await linked(a)
    at_a, at_hub = await inprocess.client(a), await inprocess.client(hub)
    answer = (await ask(at_hub, "node.health"))["result"]
    assert answer["verdict"] == "warning"
    assert any("1.10008" in check["detail"] for check in answer["checks"] if check["verdict"] == "warning")
    await hub.stop()

    async def fails() -> bool:
        return bool((await ask(at_a, "node.health"))["result"]["verdict"] == "failing")

    await until(fails)
    # Who is online was known over the link that is down.
    assert (await ask(at_a, "node.status"))["result"]["partners"]["1.56001"]["online"] is None


def test_a_direct_link_that_is_down_is_a_warning() -> None:
    up, down = {"link": "up", "last_error": ""}, {"link": "down", "last_error": "no answer"}
    for direct, verdict, detail in (
        ({"1.56001": up}, "ok", ""),
        ({"1.56001": down}, "warning", "1.56001: no answer"),
        ({"1.56001": down | {"last_error": ""}}, "warning", "1.56001: the partner has not dialled"),
    ):
        [check] = [check for check in checks(STATUS | {"direct": direct}) if check.name == "direct"]
        assert (check.verdict, check.detail) == (verdict, detail)
