"""``semq import`` as a process: killed and repeated, with bounded memory."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from semq.app import Client
from semq.legacy.mapping import DEFAULT
from tests.app.network import Network
from tests.cli.command import semq
from tests.depth import deeper
from tests.legacy import sample
from tests.waiting import until_sync

DOCUMENTS = deeper(600, 1200)
USER = "import"
SMALL, LARGE = 1_000, deeper(3_500, 10_000)  # rows
ROW_BYTES = deeper(9_000, 2_800)  # LARGE - SMALL rows have more bytes than GROWTH_MIB_MAX
GROWTH_MIB_MAX = 12
# A program that imports a file, and prints the number of sent rows and its largest memory in MiB.
MEASURE = """
import asyncio, sys
from pathlib import Path
from semq.app.values import Sent
from semq.legacy.journal import ImportJournal
from semq.legacy.mapping import read_mapping
from semq.legacy.report import ImportReport
from semq.legacy.source import open_source
from semq.legacy.transfer import PARALLEL_MAX, Transfer
from semq.umx_t.address import Address

class AcceptingClient:
    under_way = highest = 0
    async def send(self, *_, **__):
        self.under_way += 1
        self.highest = max(self.highest, self.under_way)
        await asyncio.sleep(0.001)
        self.under_way -= 1
        return Sent("1.10008.1.1.a.1", "", False, "")

async def run(file):
    mapping, client = read_mapping(None), AcceptingClient()
    report = ImportReport(file, "1.10008", False)
    transfer = Transfer(client, open_source(file, mapping), mapping, ImportJournal(Path(file + ".journal")), report,
                        own=Address(1, "10008"))
    await transfer.run()
    assert 1 < client.highest <= PARALLEL_MAX
    print(report.total("sent"), int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) // 1024)

asyncio.run(run(sys.argv[1]))
"""


def start_import(network: Network, folder: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-m", "semq.cli", "import", "--from", str(folder / "old.db"), "--json"]
    command += ["--journal", str(folder / "journal"), "--node", network.sender.url, "--timeout", "30"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def journal_entries(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "journal")) as journal:
        try:
            (count,) = journal.execute("SELECT count(*) FROM taken").fetchone()
        except sqlite3.OperationalError:  # the table is being created
            return 0
    return int(count)


def until_imported(process: "subprocess.Popen[bytes]", folder: Path, count: int) -> None:
    until_sync(lambda: process.poll() is not None or journal_entries(folder) >= count)


async def received(network: Network) -> Counter[str]:
    """Return how often the receiver's application gets each key.

    Redeliveries are not counted until all keys have arrived; after that every document is counted.
    """
    keys = Counter[str]()
    async with Client(network.receiver.url, patience_s=60) as client:
        async with client.receive(USER, idle_s=60) as documents:
            async for document in documents:
                keys[document.app_key.key] += not document.redelivered
                await document.ack()
                if len(keys) == DOCUMENTS:
                    break
        async with client.receive(USER, idle_s=1) as documents:
            keys.update([document.app_key.key async for document in documents])
    return keys


def test_an_import_that_is_killed_and_repeated_sends_nothing_twice(network: Network, tmp_path: Path) -> None:
    rows = [sample.outbound(number, target_user=USER) for number in range(1, DOCUMENTS + 1)]
    sample.fill(f"sqlite:///{tmp_path}/old.db", rows)
    for part in (1, DOCUMENTS // 3, DOCUMENTS // 2):
        process = start_import(network, tmp_path)
        until_imported(process, tmp_path, part)
        process.kill()
        process.communicate()
    process = start_import(network, tmp_path)
    out, err = process.communicate()
    assert process.returncode == 0, err
    content = json.loads(out)["tables"]["tb_0031"]
    assert content["rows"] == content.get("sent", 0) + content["known"] == DOCUMENTS
    assert asyncio.run(received(network)) == Counter({row["app_key"]: 1 for row in rows})


def test_an_import_continues_when_its_node_is_killed_and_restarted(network: Network, tmp_path: Path) -> None:
    rows = [sample.outbound(number, target_user=USER) for number in range(10_001, 10_001 + DOCUMENTS)]
    sample.fill(f"sqlite:///{tmp_path}/old.db", rows)
    sender, process, interrupted = network.sender, start_import(network, tmp_path), 0
    for part in (1, DOCUMENTS // 3, DOCUMENTS // 2):
        until_imported(process, tmp_path, part)
        sender.end(signal.SIGKILL)
        interrupted += journal_entries(tmp_path) < DOCUMENTS
        sender.launch()
        sender.ensure_ready()
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert interrupted
    content = json.loads(out)["tables"]["tb_0031"]
    assert content["rows"] == content["sent"] + content.get("known", 0) == DOCUMENTS
    assert asyncio.run(received(network)) == Counter({row["app_key"]: 1 for row in rows})


def test_an_import_ends_with_status_69_if_its_node_cannot_be_reached(tmp_path: Path) -> None:
    sample.fill(f"sqlite:///{tmp_path}/old.db", [sample.outbound(1)])
    command = ("import", "--from", str(tmp_path / "old.db"), "--journal", str(tmp_path / "j"), "--timeout", "0.5")
    semq(*command, "--node", "amqp://app:secret@127.0.0.1:1").fails(69, "SEMQ-1310")


def test_refused_rows_are_listed_as_text_and_the_status_is_1(network: Network, tmp_path: Path) -> None:
    sample.fill(f"sqlite:///{tmp_path}/old.db", [sample.outbound(1, 99), sample.outbound(2, app_key="\x1b[2J")])
    command = ("import", "--from", str(tmp_path / "old.db"), "--journal", str(tmp_path / "j"), "--dry-run")
    result = semq(*command, "--node", network.sender.url)
    assert result.status == 1
    assert "tb_0031 1: BAD_STATUS" in result.out
    assert "\x1b" not in result.out
    assert not (tmp_path / "j").exists()


def test_a_row_of_another_database_with_a_known_record_number_is_listed_and_the_status_is_1(
    network: Network, tmp_path: Path
) -> None:
    command = ("import", "--journal", str(tmp_path / "j"), "--node", network.sender.url, "--from")
    for name, body in (("first", b"first"), ("second", b"second")):
        row = sample.to_do(40_001, to_user="nobody-reads", app_data=body)
        sample.fill(f"sqlite:///{tmp_path}/{name}.db", to_do=[row])
    assert semq(*command, str(tmp_path / "first.db")).status == 0
    result = semq(*command, str(tmp_path / "second.db"))
    assert result.status == 1
    assert "tb_0032 40001: SAME_ID" in result.out


def test_rows_that_are_known_by_their_number_only_are_counted_with_a_notice(network: Network, tmp_path: Path) -> None:
    sample.fill(f"sqlite:///{tmp_path}/old.db", to_do=[sample.to_do(1)])
    sample.write_journal_without_digests(tmp_path / "j", ["import:tb_0032:1"])
    command = ("import", "--journal", str(tmp_path / "j"), "--node", network.sender.url, "--from")
    result = semq(*command, str(tmp_path / "old.db"))
    assert result.status == 0
    assert "1 known_by_number of 1 rows" in result.out
    assert "Rows known by their record number only: 1." in result.err


def test_the_default_mapping_is_printed_without_a_node() -> None:
    assert semq("import", "--print-mapping").out == DEFAULT
    assert semq("import").status == 2


@pytest.mark.parametrize("kind", ["csv", "sqlite"])
def test_memory_does_not_grow_with_the_rows(kind: str, tmp_path: Path) -> None:
    memory_mib = []
    for count in (SMALL, LARGE):
        folder = tmp_path / str(count)
        folder.mkdir()
        rows = [sample.outbound(number, app_data=os.urandom(ROW_BYTES)) for number in range(count)]
        if kind == "csv":
            sample.write_csv(folder, rows)
        else:
            sample.fill(f"sqlite:///{folder}/old.db", rows)
        file = str(folder if kind == "csv" else folder / "old.db")
        done = subprocess.run([sys.executable, "-P", "-c", MEASURE, file], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        sent, mib = map(int, done.stdout.split())
        assert sent == count
        memory_mib.append(mib)
    assert memory_mib[1] - memory_mib[0] < GROWTH_MIB_MAX


def test_an_interrupted_import_prints_no_stack_trace(network: Network, tmp_path: Path) -> None:
    rows = [sample.outbound(number, target="56001/nobody-reads") for number in range(1, 5000)]
    sample.fill(f"sqlite:///{tmp_path}/old.db", rows)
    process = start_import(network, tmp_path)
    until_imported(process, tmp_path, 1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, b"Traceback" in err) in ((130, False), (0, False))


def test_an_import_from_mariadb_sends_each_unfinished_row_once(network: Network, mariadb: str, tmp_path: Path) -> None:
    large = bytes(range(256)) * 4096  # too large to be read with its row
    orders = [
        sample.outbound(20_001, target_user=USER, app_key="订单-20001"),
        sample.outbound(20_002, target_user=USER, app_data=large),
        sample.outbound(20_003, sample.ACK2, target_user=USER),
        sample.outbound(20_004, 99, target_user=USER),
    ]
    sample.fill(mariadb, orders, to_do=[sample.to_do(1)])
    command = ("import", "--from", mariadb, "--journal", str(tmp_path / "j"), "--node", network.sender.url, "--json")
    planned = json.loads(semq(*command, "--dry-run").out)["tables"]
    first = semq(*command)
    done = json.loads(first.out)["tables"]
    assert first.status == 1  # a row has an unknown status
    assert (planned["tb_0031"]["rows"], done["tb_0031"]["rows"]) == (4, 4)
    assert (done["tb_0031"]["sent"], done["tb_0031"]["finished"], done["tb_0032"]["sent"]) == (2, 1, 1)
    repeated = json.loads(semq(*command).out)["tables"]
    assert (repeated["tb_0031"]["known"], repeated["tb_0032"]["known"]) == (2, 1)
    assert asyncio.run(bodies(network, 2)) == {"订单-20001": b"order 20001", "S20002": large}


async def bodies(network: Network, count: int) -> dict[str, bytes]:
    """Return the payloads of the next documents at the receiver, by key."""
    payloads: dict[str, bytes] = {}
    async with Client(network.receiver.url, patience_s=60) as client, client.receive(USER, idle_s=60) as documents:
        async for document in documents:
            payloads[document.app_key.key] = bytes(document.body)
            await document.ack()
            if len(payloads) == count:
                break
    return payloads
