"""Extracts: complete or absent, the same when repeated, and without data that must not leave the node."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semq.engine.uplink import DIRECTLY
from semq.store.rows import Event, Side
from spark_reconcile.days import Calendar
from spark_reconcile.errors import BadRunRequest, LedgerAway
from spark_reconcile.extracts import extract as extract_module
from spark_reconcile.extracts.extract import Extract, LedgerOrigin, batches_of, extract_ledger
from spark_reconcile.extracts.ledger import Disclosure
from spark_reconcile.extracts.manifest import Signature
from spark_reconcile.extracts.schema import ARROW_SCHEMA
from spark_reconcile.storage import Place
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, MIDNIGHT, Office, OfficeMessage, StandingClock

SALT = b"kept at home"


def hashed(app_key: str) -> str:
    """Return the hash of an AppKey, as DESIGN.md specifies it."""
    return hashlib.sha256(SALT + app_key.encode()).hexdigest()[:32]


def test_a_repetition_at_the_same_time_writes_the_same_bytes(office: Office) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    first = office.extract()["1.a"]
    before = {path.name: path.read_bytes() for path in office.folder("1.a").iterdir()}
    assert office.extract()["1.a"] == first
    assert {path.name: path.read_bytes() for path in office.folder("1.a").iterdir()} == before
    assert (first.rows, first.seq_first, first.seq_last) == (4, 1, 4)
    assert (first.at_first, first.watermark) == (MIDNIGHT + OfficeMessage(1).at, first.window_end)


def test_a_new_extract_replaces_the_files_of_the_old_one(office: Office) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    old = office.extract()["1.a"]
    office.write(OfficeMessage(2), FORWARD_COURSE)
    new = office.extract()["1.a"]
    assert {path.name for path in office.folder("1.a").glob("part-*")} == {part.name for part in new.files}
    assert {part.name for part in old.files}.isdisjoint(part.name for part in new.files)


def test_an_extract_that_fails_leaves_the_old_one_unchanged(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract_module, "ROWS_PER_GROUP", 2)
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    before = {path.name: path.read_bytes() for path in office.folder("1.a").iterdir()}
    with (
        pytest.raises(pa.ArrowInvalid),
        Extract(office.extracts, LedgerOrigin("1.a"), DAY, Calendar(), office.clock) as extract,
    ):
        extract.add_all(batches_of([*office.lines["1.a"] * 5, {"seq": "not a number"}], rows_max=1))
    with Extract(office.extracts, LedgerOrigin("1.a"), DAY, Calendar(), office.clock) as extract:
        extract.add_all(batches_of(office.lines["1.a"] * 5))  # never finished
    assert {path.name: path.read_bytes() for path in office.folder("1.a").iterdir()} == before


def test_many_rows_are_divided_among_several_files(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract_module, "ROWS_PER_GROUP", 10)
    lines = [{**line, "seq": seq} for seq, line in enumerate(_lines(office) * 25)]
    with Extract(office.extracts, LedgerOrigin("1.a"), DAY, Calendar(), office.clock, rows_per_file=40) as extract:
        extract.add_all(batches_of(lines, rows_max=7))
        manifest = extract.finish()
    assert [part.rows for part in manifest.files] == [42, 42, 16]
    read = [
        seq for part in manifest.files for seq in pq.read_table(office.folder("1.a") / part.name)["seq"].to_pylist()
    ]
    assert read == list(range(100))


def _lines(office: Office) -> list[dict[str, object]]:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    return office.lines["1.a"]


def test_the_extract_of_the_present_date_ends_shortly_before_now(office: Office) -> None:
    today = date(2026, 11, 21)
    office.write(replace(OfficeMessage(1), at=OfficeMessage(1).at + 86_400_000), FORWARD_COURSE)
    manifest = office.extract(today)["1.a"]
    assert manifest.watermark == int(office.clock.now.timestamp() * 1000) - extract_module.SETTLE_MS
    with pytest.raises(BadRunRequest):
        office.extract(date(2026, 11, 23))


def test_the_signature_of_a_manifest_covers_its_content(office: Office) -> None:
    signed = []

    def sign(content: bytes) -> Signature:
        signed.append(content)
        return Signature("node", "test", "value")

    with Extract(office.extracts, LedgerOrigin("1.a"), DAY, Calendar(), office.clock, sign=sign) as extract:
        manifest = extract.finish()
    assert manifest.signature == Signature("node", "test", "value")
    assert signed == [manifest.signed_bytes()]


@pytest.fixture
def ledger(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        _write_ledger(connection)
        yield connection


def _write_ledger(connection: psycopg.Connection) -> None:
    """Write lines of three dates. A row: number, milliseconds after midnight, side, event, AppKey, digest, detail."""
    rows = [
        (1, -1, Side.SENDER, Event.ACCEPTED, ("orders", "order", "new", "S0001"), b"\x01" * 32, "SaveFwd=2 Ack2=0"),
        (2, 0, Side.SENDER, Event.ACCEPTED, ("", "", "", ""), b"", "SaveFwd=3 Ack2=1"),
        (3, 5, Side.SENDER, Event.REJECTED, ("订单", "", "", 'quote " comma, line\nbreak'), b"", "SEMQ-1101 says 不"),
        (4, 86_399_999, Side.RECEIVER, Event.GIVEN, ("", "", "", ""), b"", "SaveFwd=1"),
        (5, 86_400_000, Side.RECEIVER, Event.DONE, ("", "", "", ""), b"", ""),
        (6, 7, Side.RECEIVER, Event.RECEIVED, ("", "", "", ""), b"", DIRECTLY),
        (7, 9, Side.RECEIVER, Event.OPERATOR, ("", "", "", ""), b"", f"{DIRECTLY}, says a person"),
    ]
    for number, after, side, event, key, digest, detail in rows:
        connection.execute(
            "INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, app_domain, app_type,"
            " app_subtype, app_key, digest, size, detail)"
            " VALUES (%s, to_timestamp(%s::double precision / 1000), %s, %s, %s, '1.b/buyer', 1, '', %s, %s, %s, %s, %s, 7, %s)",
            (number, MIDNIGHT + after, side, event, f"1.a.1.1.3f.{number}", *key, digest, detail),
        )


def test_the_ledger_of_a_date_is_read_from_postgres(
    ledger: psycopg.Connection, office: Office, clock: StandingClock
) -> None:
    manifest = extract_ledger(
        ledger, office.extracts, LedgerOrigin("1.a"), DAY, Calendar(), clock, disclosure=Disclosure(SALT)
    )
    table = pq.read_table(office.folder("1.a") / manifest.files[0].name)
    assert table.schema.equals(ARROW_SCHEMA)
    rows = sorted(table.to_pylist(), key=lambda row: row["seq"])
    assert [(row["seq"], row["at"] - MIDNIGHT) for row in rows] == [(2, 0), (3, 5), (4, 86_399_999), (6, 7), (7, 9)]
    assert rows[0] == {
        "node": "1.a", "store": "1.1", "seq": 2, "at": MIDNIGHT, "side": 1, "event": 1, "lk0": "1.a.1.1.3f.2",
        "source": "1.a", "target": "1.b/buyer", "att": 1, "lk1": "", "app_key_hash": None, "app_domain": None,
        "app_type": None, "app_subtype": None, "digest": "", "size": 7, "reason": None, "save_fwd": 3, "ack2": True,
    }  # fmt: skip
    assert rows[1]["reason"] == "SEMQ-1101"
    assert rows[1]["app_key_hash"] == hashed('订单///quote " comma, line\nbreak')
    assert rows[2]["save_fwd"] is None
    assert [row["reason"] for row in rows[3:]] == [DIRECTLY, None]


@pytest.mark.parametrize(
    ("disclosure", "app_key_hash", "kind"),
    [(Disclosure(), None, None), (Disclosure(type_in_clear=True), None, "order"),
     (Disclosure(SALT), hashed("orders/order/new/S0001"), None)],
)  # fmt: skip
def test_an_extract_has_only_the_disclosed_parts_of_an_app_key(
    ledger: psycopg.Connection,
    office: Office,
    clock: StandingClock,
    disclosure: Disclosure,
    app_key_hash: str | None,
    kind: str | None,
) -> None:
    manifest = extract_ledger(
        ledger, office.extracts, LedgerOrigin("1.a"), date(2026, 11, 19), Calendar(), clock, disclosure=disclosure
    )
    content = (office.folder("1.a", date(2026, 11, 19)) / manifest.files[0].name).read_bytes()
    (row,) = pq.read_table(office.folder("1.a", date(2026, 11, 19)) / manifest.files[0].name).to_pylist()
    assert (row["app_key_hash"], row["app_type"]) == (app_key_hash, kind)
    assert (row["digest"], row["save_fwd"], row["ack2"]) == ("01" * 32, 2, False)
    assert b"S0001" not in content


def test_a_date_without_lines_is_an_empty_extract(
    ledger: psycopg.Connection, office: Office, clock: StandingClock
) -> None:
    manifest = extract_ledger(ledger, office.extracts, LedgerOrigin("1.a"), date(2026, 11, 1), Calendar(), clock)
    assert (manifest.rows, manifest.files, manifest.seq_first) == (0, (), None)


def test_a_database_without_a_ledger_is_reported(empty_database: str, office: Office, clock: StandingClock) -> None:
    with psycopg.connect(empty_database) as connection, pytest.raises(LedgerAway):
        extract_ledger(connection, Place.at(office.root), LedgerOrigin("1.a"), DAY, Calendar(), clock)
