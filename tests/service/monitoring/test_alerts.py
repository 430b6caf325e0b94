"""Alerts: lasting changes of health checks are passed to the operator's program."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any

import psycopg
import pytest

from semq.answers.status import Check
from semq.config import load
from semq.service.monitoring.alerts import Alerts
from semq.service.monitoring.health import FAILING, OK, WARNING
from tests.clocks import ManualClock
from tests.service.inprocess import HUB_CONFIG, InProcess
from tests.waiting import until

HUB = '[node]\nkind = "platform"\nid = "hub"\n'


class AlertDesk:
    """The checks of a node, the program with its alerts, and the clock."""

    def __init__(self, folder: Path, script: str = "cat >> alerts") -> None:
        self.alerts_file = folder / "alerts"
        self.checks: list[Check] = []
        self.clock = ManualClock(0.0)
        file = folder / "node.toml"
        file.write_text(
            f"{HUB}[alerts]\ncommand = {json.dumps(['sh', '-c', f'cd {folder}; {script}'])}\nafter_s = 60\n"
        )
        settings = load(file, {}).alerts
        self.alerts = Alerts("2.hub", settings, self.clock, self.read_checks)

    async def read_checks(self) -> list[Check]:
        return self.checks

    async def at(self, now: float, *checks: Check) -> list[dict[str, Any]]:
        """Check at a time with these results; return all alerts that the program has received."""
        self.clock.now, self.checks = now, list(checks)
        await self.alerts.check()
        return (
            [json.loads(line) for line in self.alerts_file.read_text().splitlines()]
            if self.alerts_file.exists()
            else []
        )


DOWN, UP = Check("link", FAILING, "SEMQ-4910"), Check("link", OK)


async def test_a_lasting_change_is_reported_and_so_is_its_end(tmp_path: Path) -> None:
    desk = AlertDesk(tmp_path)
    assert await desk.at(0, DOWN) == []
    assert await desk.at(59, DOWN) == []
    [first] = await desk.at(60, DOWN)
    assert {name: first[name] for name in ("node", "check", "verdict", "before", "detail")} == {
        "node": "2.hub", "check": "link", "verdict": FAILING, "before": OK, "detail": "SEMQ-4910",
    }  # fmt: skip
    assert first["since"] <= first["at"]
    assert len(await desk.at(500, DOWN)) == 1
    assert len(await desk.at(510, UP)) == 1
    [_, recovery] = await desk.at(570, UP)
    assert (recovery["verdict"], recovery["before"]) == (OK, FAILING)


async def test_short_failures_cause_no_alert(tmp_path: Path) -> None:
    desk = AlertDesk(tmp_path)
    for now in range(0, 600, 50):
        assert await desk.at(now, DOWN) == []
        assert await desk.at(now + 25, UP) == []
    assert await desk.at(1000, DOWN) == []
    assert await desk.at(1050, Check("link", WARNING)) == [], "the wait did not begin anew with another verdict"
    assert len(await desk.at(1110, Check("link", WARNING))) == 1


async def test_a_check_that_is_no_longer_made_counts_as_recovered(tmp_path: Path) -> None:
    desk = AlertDesk(tmp_path)
    full = Check("quotas", WARNING, "1.56001")
    await desk.at(0, full)
    assert len(await desk.at(60, full)) == 1
    await desk.at(61)
    assert [alert["verdict"] for alert in await desk.at(121)] == [WARNING, OK]
    await desk.at(200, full)
    assert len(await desk.at(230)) == 2
    assert len(await desk.at(900)) == 2


@pytest.mark.parametrize("fault", ["exit 3", "no-such-program", "yes complaint | head -c 1000000 >&2; exit 1"])
async def test_a_program_that_fails_is_started_again_after_a_while(
    tmp_path: Path, fault: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    desk = AlertDesk(tmp_path, f"if [ -e mended ]; then cat >> alerts; else {fault}; fi")
    await desk.at(0, DOWN)
    assert await desk.at(60, DOWN) == []
    (tmp_path / "mended").touch()
    assert await desk.at(64, DOWN) == [], "it was started again at once"
    assert len(await desk.at(65, DOWN)) == 1
    result = capfd.readouterr()
    # The log goes to standard output, or to ``logging`` if an earlier test of this worker has set it up.
    assert "alert_not_sent" in result.out + result.err + caplog.text


async def test_a_program_that_does_not_read_its_input_has_not_failed(tmp_path: Path) -> None:
    desk = AlertDesk(tmp_path, "exec <&-; touch began; exit 0")
    await desk.at(0, DOWN)
    await desk.at(60, DOWN)
    assert (tmp_path / "began").exists()
    (tmp_path / "began").unlink()
    await desk.at(120, DOWN)
    assert not (tmp_path / "began").exists(), "a second alert was sent"


async def test_children_of_the_program_are_not_awaited(tmp_path: Path) -> None:
    desk = AlertDesk(tmp_path, "cat >> alerts; sleep 100 & echo begun >&2")
    await desk.at(0, DOWN)
    assert len(await desk.at(60, DOWN)) == 1
    assert len(await desk.at(90, DOWN)) == 1, "a second alert was sent"


async def test_no_recovery_is_reported_for_a_check_that_could_not_run(tmp_path: Path) -> None:
    desk = AlertDesk(tmp_path)
    full_quota = Check("quotas", WARNING, "1.56001")
    store_ok, store_away = Check("store", OK), Check("store", FAILING, "SEMQ-3001")
    await desk.at(0, full_quota, store_ok)
    assert len(await desk.at(60, full_quota, store_ok)) == 1
    await desk.at(100, store_away)
    assert [alert["check"] for alert in await desk.at(300, store_away)] == ["quotas", "store"]
    await desk.at(400, full_quota, store_ok)
    assert [alert["check"] for alert in await desk.at(500, full_quota, store_ok)] == ["quotas", "store", "store"]


async def test_a_node_that_stops_starts_no_program(tmp_path: Path) -> None:
    desk = AlertDesk(tmp_path)
    await desk.at(0, DOWN)
    await desk.alerts.stop()
    assert await desk.at(60, DOWN) == []


async def test_a_program_that_is_starting_is_killed_when_its_node_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = AlertDesk(tmp_path, "exec sleep 100")
    start = asyncio.create_subprocess_exec
    started: list[Process] = []

    async def start_and_stop(*arguments: Any, **options: Any) -> Process:
        started.append(await start(*arguments, **options))
        await desk.alerts.stop()
        return started[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_stop)
    await desk.at(0, DOWN)
    async with asyncio.timeout(10):
        await desk.at(60, DOWN)
    assert started[0].returncode == -signal.SIGKILL


async def test_passwords_in_the_environment_are_not_passed_to_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMQ_HUB__PASSWORD", "planted")
    desk = AlertDesk(tmp_path, "env > environment")
    await desk.at(0, DOWN)
    await desk.at(60, DOWN)
    variables = (tmp_path / "environment").read_text()
    assert "planted" not in variables
    assert f"PATH={os.environ['PATH']}" in variables


async def test_a_node_reports_the_loss_of_its_database(inprocess: InProcess) -> None:
    result = inprocess.folder / "alerts"
    node = await inprocess.hub(f'{HUB_CONFIG}\n[alerts]\ncommand = ["sh", "-c", "cat >> {result}"]\nafter_s = 0\n')
    assert {check.verdict for check in await node.checks()} == {OK}
    url = str(node.settings.database.dsn)
    name = url.rpartition("/")[2].partition("?")[0]

    def allow_connections(allow: str) -> None:
        with psycopg.connect(url.replace(f"/{name}?", "/postgres?"), autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {allow}')
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])

    def verdicts() -> list[str]:
        node.clockwork.hasten("alerts")
        lines = result.read_text().splitlines() if result.exists() else []
        alerts = [json.loads(line) for line in lines]
        return [alert["verdict"] for alert in alerts if alert["check"] == "store"]

    allow_connections("false")
    await until(lambda: verdicts() == [FAILING])
    allow_connections("true")
    await until(lambda: verdicts() == [FAILING, OK])
