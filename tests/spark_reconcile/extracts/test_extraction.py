"""``extract`` and ``collect`` with real nodes; the column ``reason``: codes, and names of documents in pieces."""

import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest

from local_node.node import LocalNode
from semq.app import Client
from semq.store.postgres.ledger_partitions import drop_before, make_ahead
from semq.store.rows import Event
from semq.umx_t.locator import parse_lk0
from spark_reconcile import commands
from spark_reconcile.days import Window, parse_date
from spark_reconcile.extracts.delivery import DELIVERED
from spark_reconcile.extracts.extract import Extract
from spark_reconcile.extracts.ledger import read_ledger
from spark_reconcile.extracts.manifest import Manifest
from spark_reconcile.sources import inputs
from spark_reconcile.storage import Place
from tests.clocks import noon_clock
from tests.local_node.pieces.test_transfer import (
    SIZE,
    KeepingConsumer,
    body_of,
    confirming,
    is_clean,
    local,
    published,
)
from tests.service.inprocess import LOCAL_CONFIG, InProcess, linked
from tests.waiting import until

SECRET_KEY, SECRET_BODY = "S0001-secret", b"the price is 4711"
CLOCK = noon_clock()
TODAY = CLOCK.wall().date().isoformat()


def url(node: LocalNode) -> str:
    return f"amqp://guest:guest@127.0.0.1:{node.port}"


@pytest.fixture
async def sender(inprocess: InProcess) -> LocalNode:
    """Return 10008, which sends its extracts to 56001 in small pieces."""
    hub = await inprocess.hub()
    (inprocess.folder / "salt").write_text("a long enough secret\n")
    text = LOCAL_CONFIG.format(name="10008", hub=hub.port)
    extract_table = '[extract]\ndeliver_to = "56001/reports"\npiece_bytes = 4096\nsalt_file = "salt"\nfolder = "out"\n'
    node = LocalNode(inprocess.settings("10008", text + extract_table), CLOCK)
    inprocess.stack.push_async_callback(node.stop)
    await node.start()
    await linked(node)
    return node


async def call(node: LocalNode, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run the command line in another thread; return its exit status and the printed JSON object."""
    monkeypatch.setenv("SEMQ_DATABASE_URL", node.store.url)
    monkeypatch.setenv("SEMQ_NODE", url(node))
    printed: list[str] = []
    monkeypatch.setattr("builtins.print", lambda text, file=None: printed.append(text))
    code = await asyncio.to_thread(commands.main, [*arguments, "--json"], CLOCK)
    monkeypatch.undo()
    return code, json.loads(printed[-1])


async def test_an_extract_travels_to_the_hub_s_storage_as_documents(
    sender: LocalNode, inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = await inprocess.local("56001", int(str(sender.settings.hub.url).rpartition(":")[2]))  # type: ignore[union-attr]
    await linked(receiver)
    async with Client(url(sender)) as application:
        keys = [f"trade/order//{SECRET_KEY}-{number}" for number in range(40)]
        sent = [await application.send("56001", SECRET_BODY, app_key=key) for key in keys]
        await application.wait_for_delivery(sent[-1].lk0, timeout_s=60)
    config = str(sender.settings.file)
    code, result = await call(sender, monkeypatch, "extract", "--config", config, "--business-date", TODAY)
    assert (code, result["outcome"]) == (0, "extracted")
    assert result["documents"] > 1
    storage = inprocess.folder / "storage"
    code, outcome = await call(
        receiver, monkeypatch, "collect", "--user", "reports", "--idle", "2", "--extracts", str(storage)
    )
    assert (code, outcome["refused"]) == (0, [])
    assert outcome["extracts"] == [f"{TODAY} 1.10008.1.1"]
    [source] = inputs.gather(Place.at(storage), [parse_date(TODAY)])
    assert (source.state, source.manifest and source.manifest.rows) == ("COMPLETE", result["rows"])
    all_bytes = b"".join(file.read_bytes() for file in (inprocess.folder / "out").rglob("*") if file.is_file())
    tables = [pq.read_table(file).to_pandas() for file in storage.rglob("*.parquet")]
    salted = hashlib.sha256(f"a long enough secrettrade/order//{SECRET_KEY}-0".encode()).hexdigest()[:32]
    # The hash is made with the salt of the node's own configuration.
    assert any(salted in set(table["app_key_hash"]) for table in tables)
    columns = [table.to_csv() for table in tables]
    assert SECRET_KEY.encode() not in all_bytes
    assert SECRET_BODY not in all_bytes
    assert not any(word in text for text in columns for word in (SECRET_KEY, SECRET_BODY.decode(), "trade", "order"))
    code, _ = await call(sender, monkeypatch, "extract", "--config", config, "--nightly")
    assert code == 0


async def test_nothing_is_collected_from_another_node_than_that_of_the_file(
    sender: LocalNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with Client(url(sender)) as application:
        sent = await application.send("10008", b"a document for another application")
        await application.wait_for_delivery(sent.lk0, timeout_s=60)
        copied = tmp_path / "copied.toml"
        text = LOCAL_CONFIG.format(name="77001", hub=1)
        copied.write_text(text.replace("port = 0", f"port = {sender.port}"))
        monkeypatch.delenv("SEMQ_NODE", raising=False)
        arguments = ["collect", "--config", str(copied), "--idle", "1", "--extracts", str(tmp_path / "storage")]
        assert await asyncio.to_thread(commands.main, arguments, CLOCK) == 2
        async with application.receive(idle_s=60) as documents:
            assert (await anext(aiter(documents))).body == b"a document for another application"


async def test_missed_nights_are_extracted_once_and_old_delivered_extracts_are_removed(
    sender: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = CLOCK.wall() - timedelta(days=3)
    with psycopg.connect(sender.store.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, app_domain, app_type,"
            " app_subtype, app_key, digest, size, detail) VALUES (9999999, %s, 1, 1, '1.10008.1.1.3f.1', '1.56001', 0,"
            " '', 'd', 't', '', 'k', '', 1, '')",
            [began],
        )
    config = str(sender.settings.file)
    code, result = await call(sender, monkeypatch, "extract", "--config", config, "--nightly")
    assert code == 0
    days = [(began.date() + timedelta(days=step)).isoformat() for step in range(3)]
    assert [(extract["business_date"], extract["rows"]) for extract in result["extracts"]] == [
        (days[0], 1),
        (days[1], 0),
        (days[2], 0),
    ]
    assert result["documents"] >= 3
    out, ledger = Path(config).with_name("out"), "ledger=1.10008.1.1"
    of_date = out / f"business_date={days[0]}"
    for age, is_delivered in ((99, True), (101, True), (102, False)):
        old = out / f"business_date={CLOCK.wall().date() - timedelta(days=age + 1)}" / ledger
        shutil.copytree(of_date / ledger, old)
        if not is_delivered:
            (old / DELIVERED).unlink()
    before = {folder.name for folder in out.glob("business_date=*")}
    code, result = await call(sender, monkeypatch, "extract", "--config", config, "--nightly")
    assert (code, result["extracts"], result["documents"]) == (0, [], 0)
    removed = before - {folder.name for folder in out.glob("business_date=*")}
    assert removed == {f"business_date={CLOCK.wall().date() - timedelta(days=102)}"}


YESTERDAY = CLOCK.wall().replace(minute=30) - timedelta(days=1)


def write_line(connection: psycopg.Connection, number: int, at: datetime) -> None:
    connection.execute(
        "INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, app_domain, app_type, app_subtype,"
        " app_key, digest, size, detail) VALUES (%s, %s, 1, 1, '1.10008.1.1.3f.1', '1.56001', 0, '', 'd', 't', '', 'k',"
        " '', 1, '')",
        [number, at],
    )


def test_a_night_is_extracted_again_after_its_lines_have_changed(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("extract", "--node", "1.10008", "--database-url", database, "--extracts", str(tmp_path), "--json")

    def nightly() -> list[tuple[str, int]]:
        assert commands.main([*words, "--nightly"], CLOCK) == 0
        printed = capsys.readouterr()
        warnings.extend(line for line in printed.err.splitlines() if "gone" in line)
        extracts = json.loads(printed.out.splitlines()[-1])["extracts"]
        return [(extract["business_date"], extract["rows"]) for extract in extracts]

    warnings: list[str] = []
    day = YESTERDAY.date().isoformat()
    with psycopg.connect(database, autocommit=True) as connection:
        write_line(connection, 1, YESTERDAY - timedelta(days=1))
        write_line(connection, 2, YESTERDAY)
        assert (day, 1) in nightly()
        assert nightly() == []
        write_line(connection, 3, YESTERDAY)  # the clock was set back
        assert nightly() == [(day, 2)]
        assert warnings == []
        connection.execute("DELETE FROM semq_ledger WHERE number > 1")  # a backup was restored
        assert nightly() == [(day, 0)]
        assert warnings == [f"{day}: 2 lines are gone since the extract before: was the store restored?"]
        write_line(connection, 2, YESTERDAY)
        assert nightly() == [(day, 1)]
        assert nightly() == []
        assert len(warnings) == 1


async def make_and_drop_partitions(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await make_ahead(connection, YESTERDAY.date())
        await drop_before(connection, YESTERDAY.date() - timedelta(days=1))


def test_an_extract_is_kept_after_its_lines_were_dropped_from_the_ledger(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    day = YESTERDAY.date() - timedelta(days=2)
    words = ("extract", "--node", "1.10008", "--database-url", database, "--extracts", str(tmp_path), "--json")
    dated = ("--business-date", day.isoformat())
    with psycopg.connect(database, autocommit=True) as connection:
        write_line(connection, 1, YESTERDAY - timedelta(days=2))
        write_line(connection, 2, YESTERDAY - timedelta(days=1))
        assert commands.main([*words, *dated], CLOCK) == 0
        manifest = next(tmp_path.rglob("_manifest.json"))
        content = manifest.read_bytes()
        asyncio.run(make_and_drop_partitions(database))
        assert commands.main([*words, *dated], CLOCK) == 2
    message = capsys.readouterr().err
    assert "the earlier extract was kept" in message
    assert "remove its folder" in message
    assert manifest.read_bytes() == content


def test_no_lock_on_the_ledger_is_held_while_extracts_are_finished(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, sessions = Extract.finish, []

    def finish_beside_a_lock(extract: Extract) -> Manifest:
        with psycopg.connect(database) as other:
            other.execute("LOCK TABLE semq_ledger IN ACCESS EXCLUSIVE MODE NOWAIT")
            sessions.extend(
                other.execute("SELECT state FROM pg_stat_activity WHERE application_name = 'semq-extract'").fetchall()
            )
        return finish(extract)

    monkeypatch.setattr(Extract, "finish", finish_beside_a_lock)
    words = ("--node", "1.10008", "--database-url", database, "--business-date", TODAY, "--extracts", str(tmp_path))
    assert commands.main(["extract", *words], CLOCK) == 0
    assert sessions == [("idle",)]


def test_commands_are_refused_without_a_node_or_its_database_or_with_a_short_salt(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(LOCAL_CONFIG.format(name="10008", hub=1))
    assert commands.main(["extract"]) == 2
    assert commands.main(["extract", "--config", str(file)]) == 69  # the embedded database does not run
    (tmp_path / "salt").write_text("abc")
    assert (
        commands.main(["extract", "--node", "1.a", "--database-url", "x", "--salt-file", str(tmp_path / "salt")]) == 78
    )
    assert commands.main(["collect"]) == 2


async def test_the_lines_of_pieces_and_manifest_name_their_document(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port)
    await linked(a, b)
    assert await published(await confirming(inprocess, a), "56001", body_of(SIZE))
    consumer = await KeepingConsumer.on(inprocess, b)
    consumer.channel.ack((await consumer.next()).delivery_tag)
    await until(lambda: is_clean(a) and is_clean(b))
    now = int(datetime.now(UTC).timestamp() * 1000)
    with psycopg.connect(a.store.url) as connection:
        batches = list(read_ledger(connection, Window(now - 3_600_000, now + 3_600_000), "1.10008", "1.1"))
    lines = [line for batch in batches for line in batch.to_pylist() if line["event"] == Event.ACCEPTED]
    manifest = next(line["reason"] for line in lines if not line["target"].endswith("/_pieces"))
    assert {line["reason"] for line in lines} == {manifest, *(f"{manifest}/{number}" for number in range(21))}
    assert str(parse_lk0(manifest)) == manifest


@pytest.mark.parametrize(
    ("event", "detail", "reason"),
    [
        (Event.ACCEPTED, "sealed k1, piece 1.a.1.1.3f.7/12", "1.a.1.1.3f.7/12"),
        (Event.ACCEPTED, "scheduled as 1.a.1.1.3f.7, 2 pieces, 300000 bytes", "1.a.1.1.3f.7"),
        (Event.ACCEPTED, "the document of 1.a.1.1.3f.8, sealed for key k, manifest of 1.a.1.1.3f.7", "1.a.1.1.3f.7"),
        (Event.ACCEPTED, "scheduled as 1.a.1.1.3f.7", None),
        (Event.ACCEPTED, "the document of 1.a.1.1.3f.8, sealed for key k", None),
        (Event.SENT, "piece 1.a.1.1.3f.7/12", None),
        (Event.REJECTED, "SEMQ-1101: piece 1.a.1.1.3f.7/12", "SEMQ-1101"),
    ],
)
def test_the_reason_of_a_line_is_its_code_or_its_document_in_pieces(
    database: str, event: Event, detail: str, reason: str | None
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, app_domain, app_type,"
            " app_subtype, app_key, digest, size, detail) VALUES (1, now(), 1, %s, '1.a.1.1.3f.1', '1.b', 0,"
            " '', 'd', 't', '', 'k', '', 1, %s)",
            [event, detail],
        )
        now = int(datetime.now(UTC).timestamp() * 1000)
        [batch] = read_ledger(connection, Window(now - 3_600_000, now + 3_600_000), "1.a", "1.1")
    assert batch.to_pylist()[0]["reason"] == reason


def test_a_ledger_is_read_without_an_import_of_spark_or_pandas(database: str) -> None:
    """Either import takes longer than a small extract."""
    program = """
import sys, psycopg
from spark_reconcile.days import Window
from spark_reconcile.extracts import extraction
from spark_reconcile.extracts.ledger import read_ledger
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    connection.execute(
        "INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, app_domain, app_type, app_subtype,"
        " app_key, digest, size, detail) VALUES (1, to_timestamp(5), 1, 1, '1.a.1.1.3f.1', '1.b', 0, '', 'd', 't', '',"
        " 'k', '', 1, '')"
    )
    [batch] = read_ledger(connection, Window(0, 10_000), "1.a", "1.1")
    print(batch["node"].to_pylist(), batch["store"].to_pylist(), {"pandas", "pyspark"} & {*sys.modules})
"""
    done = subprocess.run([sys.executable, "-P", "-c", program, database], capture_output=True, text=True, check=False)
    assert done.stdout == "['1.a'] ['1.1'] set()\n", done.stderr
