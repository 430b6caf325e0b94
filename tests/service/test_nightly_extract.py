"""The nightly extract of a node."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from signal import SIGTERM

import psycopg
import pytest

from local_node.node import LocalNode
from semq.answers.status import ExtractStatus
from semq.clock import SystemClock
from semq.config import load
from semq.service import nightly_extract
from semq.service.nightly_extract import RETRY_S, NightlyExtracts, next_after
from tests.clocks import START, ManualClock
from tests.local_node.virtual.hosting import hosting
from tests.service.inprocess import LOCAL_CONFIG, InProcess, ask
from tests.waiting import until


@pytest.mark.parametrize(
    ("now", "zone", "expected"),
    [
        ("2026-11-20T12:00+00:00", "UTC", "2026-11-21T00:30+00:00"),
        ("2026-11-20T00:29+00:00", "UTC", "2026-11-20T00:30+00:00"),
        ("2026-11-20T00:30+00:00", "UTC", "2026-11-21T00:30+00:00"),
        ("2026-11-20T12:00+00:00", "Asia/Shanghai", "2026-11-20T16:30+00:00"),
        ("2026-03-28T23:45+00:00", "Europe/Berlin", "2026-03-29T22:30+00:00"),  # summer time begins
    ],
)
def test_the_next_extract_is_at_the_time_of_day_in_the_zone(now: str, zone: str, expected: str) -> None:
    assert next_after(datetime.fromisoformat(now), "00:30", zone) == datetime.fromisoformat(expected)


def node_with(inprocess: InProcess, more: str) -> LocalNode:
    node = LocalNode(inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=1) + more), SystemClock())
    inprocess.stack.push_async_callback(node.stop)
    return node


def status_of(nightly: NightlyExtracts) -> ExtractStatus:
    assert nightly.last is not None
    return nightly.last


async def start_extracting(node: LocalNode) -> None:
    await node.start()
    node.clockwork.hasten("extract")


async def test_a_node_extracts_completed_dates_at_its_start(inprocess: InProcess) -> None:
    node = node_with(inprocess, '[extract]\nat = "00:30"\nfolder = "shared"\n')
    yesterday = datetime.now(UTC) - timedelta(days=1)
    with psycopg.connect(str(node.settings.database.dsn), autocommit=True) as connection:
        connection.execute(
            "INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, app_domain, app_type,"
            " app_subtype, app_key, digest, size, detail) VALUES (1, %s, 1, 1, '1.10008.1.1.3f.1', '1.56001', 0, '',"
            " 'd', 't', '', 'k', '', 1, '')",
            [yesterday],
        )
    await start_extracting(node)
    await until(lambda: node.nightly.last)
    answer = (await ask(await inprocess.client(node), "node.status"))["result"]["extract"]
    assert answer["exit_status"] == 0, answer
    date = inprocess.folder / "shared" / f"business_date={yesterday.date()}"
    assert '"rows": 1' in (date / "ledger=1.10008.1.1" / "_manifest.json").read_text()


async def test_a_failed_extract_is_repeated_and_does_not_affect_the_node(inprocess: InProcess) -> None:
    node = node_with(inprocess, '[extract]\nat = "00:30"\nsalt_file = "not-there"\n')
    await start_extracting(node)
    await until(lambda: node.nightly.last)
    assert status_of(node.nightly).exit_status == 78
    assert "SEMQ-6008" in status_of(node.nightly).output
    assert (node.nightly._due - datetime.now(UTC)).total_seconds() < RETRY_S
    assert (await ask(await inprocess.client(node), "node.status"))["ok"]


async def test_without_a_time_nothing_is_extracted(inprocess: InProcess) -> None:
    assert node_with(inprocess, "").nightly.jobs() == []


async def test_each_institution_of_a_virtual_server_extracts_its_ledger(inprocess: InProcess) -> None:
    async with hosting(inprocess, ('extract.at = "00:30"\nextract.folder = "shared"',) * 2) as hosted:
        names = hosted.names[:2]
        nodes = [hosted.node(name) for name in names]
        for node in nodes:
            node.clockwork.hasten("extract")
        await until(lambda: all(node.nightly.last for node in nodes))
        assert [status_of(node.nightly).exit_status for node in nodes] == [0, 0], nodes[0].nightly.last
    folders = {path.parent.name for path in (inprocess.folder / "shared").rglob("_manifest.json")}
    assert folders == {f"ledger=1.{name}.1.1" for name in names}


def nightly_of(
    folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, program: str, turn: asyncio.Lock
) -> NightlyExtracts:
    """Return the extracts of a node; ``program`` is run instead of an extract."""
    monkeypatch.setattr(nightly_extract, "COMMAND", (sys.executable, "-c", program))
    file = folder / "node.toml"
    file.write_text(LOCAL_CONFIG.format(name="10008", hub=1) + '[extract]\nat = "00:30"\n')
    return NightlyExtracts(load(file, {}), clock, dict, turn)


async def test_extracts_of_one_process_run_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = asyncio.Lock()
    program = f"open({str(tmp_path / 'running')!r}, 'x').close(); import os; os.remove({str(tmp_path / 'running')!r})"
    nodes = [nightly_of(tmp_path, ManualClock(), monkeypatch, program, turn) for _ in range(4)]
    await asyncio.gather(*(node.run_if_due() for node in nodes))
    assert [status_of(node).exit_status for node in nodes] == [0] * 4, nodes[-1].last


async def test_extracts_go_on_after_the_clock_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(now=365 * 86_400.0)  # a year ahead
    nightly = nightly_of(tmp_path, clock, monkeypatch, "", asyncio.Lock())
    await nightly.run_if_due()
    clock.now = 60.0
    times = []
    for _ in range(49):
        await nightly.run_if_due()
        times.append(status_of(nightly).at)
        clock.now += 3600
    assert sorted({datetime.fromisoformat(str(at)) - START for at in times}) == [
        timedelta(minutes=1), timedelta(hours=1, minutes=1), timedelta(hours=25, minutes=1),
    ]  # fmt: skip


async def test_an_extract_that_starts_while_its_node_stops_is_ended(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nightly_extract, "COMMAND", (sys.executable, "-c", "import time; time.sleep(600)"))
    nightly = node_with(inprocess, '[extract]\nat = "00:30"\n').nightly
    monkeypatch.setattr(nightly, "_environment", dict)
    nightly.make_due()
    await nightly.stop()
    await nightly.run_if_due()
    assert status_of(nightly).exit_status == -SIGTERM


async def test_a_node_that_stops_ends_its_extract(inprocess: InProcess, caplog: pytest.LogCaptureFixture) -> None:
    node = node_with(inprocess, '[extract]\nat = "00:30"\nfolder = "shared"\n')
    await start_extracting(node)
    process = await until(lambda: node.nightly._process)
    await node.stop()
    assert process.returncode is not None
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
