"""The files for systemd, Prometheus and Grafana name only commands, settings and metrics that exist."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import pytest

from semq.config.names import is_known
from semq.service.monitoring.metrics import LATENCY, METRICS
from spark_reconcile.sources.inputs import STATE
from tests.cli.command import semq
from tests.deploy.programs import PROMTOOL

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "semq.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "semq.json"
RECONCILIATION = ROOT / "spark_reconcile" / "report" / "metrics.py"
TIMERS = sorted((ROOT / "deploy" / "systemd").glob("*.timer"))
PROGRAM = str(Path(sys.executable).with_name("semq"))
SYSTEMD_ANALYZE = shutil.which("systemd-analyze")
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_of_semq(unit: Path) -> None:
    [words] = re.findall(r"^ExecStart=/opt/semq/bin/semq (.+) --config \S+$", unit.read_text(), re.MULTILINE)
    shown = semq(*words.split(), "--help")
    assert (shown.status, "--config" in shown.out) == (0, True), shown


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_names_settings_that_exist(unit: Path) -> None:
    variables = re.findall(r"SEMQ_([A-Z0-9_]+)=", unit.read_text())
    assert variables
    assert all(is_known(name.lower().split("__")) for name in variables)


@pytest.mark.skipif(SYSTEMD_ANALYZE is None, reason="systemd is not installed")
@pytest.mark.parametrize("unit", [*UNITS, *TIMERS], ids=lambda unit: unit.name)
def test_systemd_accepts_a_unit(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name.replace("@.", "@1.")
    copy.write_text(unit.read_text("utf-8").replace("/opt/semq/bin/semq", PROGRAM))
    for service in UNITS:  # a timer is checked with the service that it starts
        (tmp_path / service.name).write_text(service.read_text("utf-8").replace("/opt/semq/bin/semq", PROGRAM))
    command = [str(SYSTEMD_ANALYZE), "verify", "--man=no", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if copy.name in line]) == (0, [])


@pytest.mark.skipif(SYSTEMD_ANALYZE is None, reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_confines_a_unit(unit: Path) -> None:
    command = [str(SYSTEMD_ANALYZE), "security", "--offline=true", "--threshold=20", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-200:]


@pytest.mark.parametrize("timer", TIMERS, ids=lambda timer: timer.name)
def test_changed_clocks_neither_skip_nor_repeat_a_timer_in_any_time_zone(timer: Path) -> None:
    for zone in sorted(available_timezones()):
        for before, after in changes_of_clocks(ZoneInfo(zone), 2026, 2029):
            first, last = sorted((before, after))  # local times that are skipped or repeated
            # Between them is no other day on which the timer elapses.
            day = datetime.combine(first.date(), time_of(timer))
            assert not any(first <= moment < last for moment in (day, day + timedelta(days=1))), (zone, first)


@pytest.mark.skipif(SYSTEMD_ANALYZE is None, reason="systemd is not installed")
@pytest.mark.parametrize("timer", TIMERS, ids=lambda timer: timer.name)
@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/Havana", "America/New_York", "Asia/Beirut", "Australia/Lord_Howe"]
)
def test_systemd_elapses_a_timer_once_on_each_date_around_a_change_of_clocks(timer: Path, zone: str) -> None:
    (calendar,) = re.findall(r"^OnCalendar=(.+)$", timer.read_text("utf-8"), re.MULTILINE)
    for before, _ in changes_of_clocks(ZoneInfo(zone), 2026, 2027):
        begin = before.date() - timedelta(days=2)
        command = [str(SYSTEMD_ANALYZE), "calendar", f"--base-time={begin} 12:00", "--iterations=5", calendar]
        done = subprocess.run(command, env={"TZ": zone}, capture_output=True, text=True, check=True)
        dates = re.findall(r"(?:Next elapse|Iteration #\d|Iter\. #\d): \w+ (\d{4}-\d\d-\d\d) (\S+)", done.stdout)
        assert dates == [(str(begin + timedelta(days=day)), f"{time_of(timer)}") for day in range(1, 6)]


def time_of(timer: Path) -> time:
    (text,) = re.findall(r"^OnCalendar=\*-\*-\* (\d\d:\d\d)$", timer.read_text("utf-8"), re.MULTILINE)
    return time.fromisoformat(text)


def changes_of_clocks(zone: ZoneInfo, first_year: int, last_year: int) -> Iterator[tuple[datetime, datetime]]:
    """Yield the changes of the clocks of a zone, to a quarter of an hour: local times before and after."""
    moment, end = (datetime(year, 1, 1, tzinfo=UTC) for year in (first_year, last_year))
    while moment < end:
        following = moment + timedelta(days=7)
        if moment.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset():
            while moment.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset():
                before, moment = moment, moment + timedelta(minutes=15)
                offset = before.astimezone(zone).utcoffset()
                if moment.astimezone(zone).utcoffset() != offset:
                    assert offset is not None
                    yield moment.replace(tzinfo=None) + offset, moment.astimezone(zone).replace(tzinfo=None)
        moment = following


@pytest.mark.parametrize("file", [RULES, DASHBOARD], ids=lambda file: file.name)
def test_rules_and_dashboard_ask_for_figures_that_exist(file: Path) -> None:
    expressions = re.findall(r"\bsemq_[a-z_]+\b(?!\.)", file.read_text("utf-8"))
    names = {metric.name for metric in METRICS} | {f"{LATENCY}_bucket"}
    names |= {f"semq_{name}" for name in re.findall(r'"(reconcile_\w+)"', RECONCILIATION.read_text("utf-8"))}
    assert len(set(expressions)) > 10
    assert set(expressions) - names == set()


def test_rules_have_texts_and_name_commands_that_exist() -> None:
    rules = RULES.read_text("utf-8").split("- alert: ")[1:]
    assert all(re.search(r"\n +summary: .+\n +description: .+", rule) for rule in rules)
    commands = {command for rule in rules for command in re.findall(r"`semq ([a-z]+ [a-z]+|doctor)", rule)}
    assert len(commands) > 5
    for command in commands:
        assert semq(*command.split(), "--help").status == 0
    if PROMTOOL:
        subprocess.run([PROMTOOL, "check", "rules", str(RULES)], check=True, capture_output=True)


def test_the_rule_about_a_partial_reconciliation_names_states_that_need_an_act() -> None:
    # The outcome "partial" is usual where a partner never extracts.
    rules = RULES.read_text("utf-8")
    assert 'outcome="partial"' not in rules
    (states,) = re.findall(r'semq_reconcile_sources{state=~"([A-Z_|]+)"} > 0', rules)
    assert set(states.split("|")) == {"LATE", "NOT_RUN"} <= STATE.keys()


def test_the_dashboard_has_panels() -> None:
    assert json.loads(DASHBOARD.read_text("utf-8"))["panels"]


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    text = RULES.read_text("utf-8")
    alerts = re.findall(r"^ +- alert: (\w+)", text, re.MULTILINE)
    addresses = re.findall(r'^ +runbook_url: "operate/runbooks.html#(\w+)"$', text, re.MULTILINE)
    runbooks = (ROOT / "docs" / "operate" / "runbooks.md").read_text("utf-8")
    assert addresses == [alert.lower() for alert in alerts]
    assert re.findall(r"^## (\w+)$", runbooks, re.MULTILINE) == alerts
