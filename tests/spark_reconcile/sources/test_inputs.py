"""Checks of extracts: a state for each fault, and the choice between several extracts."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_reconcile.extracts.manifest import ExtractPart, Manifest, Signature, read_manifest
from spark_reconcile.sources import inputs
from spark_reconcile.sources.inputs import STATES, Source
from spark_reconcile.sources.parts import CheckedFile, checked_file
from spark_reconcile.storage import Place
from tests.spark_reconcile.damage import describe_file
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, HOUR, HUB, MIDNIGHT, Office, OfficeMessage


@pytest.fixture
def folder(office: Office) -> Path:
    """Return the folder of the extract of 1.b, which received one message."""
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    return office.folder("1.b")


def states(office: Office) -> dict[str, str]:
    return {source.source: source.state for source in inputs.gather(office.extracts, [DAY])}


def rewrite(
    folder: Path,
    change: Callable[[pa.Table], pa.Table],
    *,
    describe: bool = True,
    statistics: bool = True,
    **manifest: object,
) -> None:
    """Change the rows of an extract. With ``describe``, its manifest is adapted, and gets the fields ``manifest``."""
    (part,) = folder.glob("part-*.parquet")
    pq.write_table(change(pq.read_table(part)), part, compression="NONE", write_statistics=statistics)
    if describe:
        describe_file(part)
        set_manifest(folder, **manifest)


def set_manifest(folder: Path, **fields: object) -> None:
    manifest = json.loads((folder / "_manifest.json").read_text())
    (folder / "_manifest.json").write_text(json.dumps({**manifest, **fields}))


def truncate(folder: Path) -> None:
    (part,) = folder.glob("part-*.parquet")
    part.write_bytes(part.read_bytes()[:-20])


def change_byte(folder: Path) -> None:
    (part,) = folder.glob("part-*.parquet")
    content = bytearray(part.read_bytes())
    content[30] ^= 1
    part.write_bytes(content)


def replace_parquet_by_text(folder: Path) -> None:
    (part,) = folder.glob("part-*.parquet")
    part.write_bytes(b"not a parquet file")
    describe_file(part)


def compress_by_brotli(folder: Path) -> None:
    (part,) = folder.glob("part-*.parquet")
    pq.write_table(pq.read_table(part), part, compression="brotli")
    describe_file(part)


def remove_file(folder: Path) -> None:
    (part,) = folder.glob("part-*.parquet")
    part.unlink()


def break_json(folder: Path) -> None:
    (folder / "_manifest.json").write_text("{")


def make_manifest_a_folder(folder: Path) -> None:
    (folder / "_manifest.json").unlink()
    (folder / "_manifest.json").mkdir()


def with_invalid_node(table: pa.Table) -> pa.Table:
    return table.set_column(0, "node", pa.array([b"\xff", b"\xfe"]).view(pa.string()))


def with_other_node(table: pa.Table) -> pa.Table:
    return table.set_column(0, "node", pa.array(["1.c"] * table.num_rows))


# Fault | state, and the change that causes it.
WRONG: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a truncated file": ("TRUNCATED", truncate),
    "a missing file": ("TRUNCATED", remove_file),
    "a changed byte": ("ALTERED", change_byte),
    "a longer file than the manifest describes": (
        "ALTERED",
        lambda f: rewrite(f, lambda t: pa.concat_tables([t] * 2000), describe=False),
    ),
    "a file that is not Parquet": ("TRUNCATED", replace_parquet_by_text),
    "more rows than stated, in a file of the stated length": (
        "OTHER_ROWS",
        lambda f: rewrite(f, lambda t: pa.concat_tables([t, t])),
    ),
    "rows that do not add up": ("MANIFEST_WRONG", lambda f: set_manifest(f, rows=99)),
    "a manifest of another date": ("MANIFEST_WRONG", lambda f: set_manifest(f, business_date="2026-11-19")),
    "a window of many years": ("MANIFEST_WRONG", lambda f: set_manifest(f, window_start=0)),
    "an impossible clock": ("MANIFEST_WRONG", lambda f: set_manifest(f, clock_skew_ms=2**62)),
    "a compression that Spark does not know": ("UNKNOWN_SCHEMA", compress_by_brotli),
    "a manifest that is not JSON": ("MANIFEST_WRONG", break_json),
    "a schema version of the future": ("UNKNOWN_SCHEMA", lambda f: set_manifest(f, schema_version=2)),
    "a column of another type": (
        "UNKNOWN_SCHEMA",
        lambda f: rewrite(f, lambda t: t.set_column(3, "at", t["at"].cast(pa.float64()))),
    ),
    "a missing column": ("UNKNOWN_SCHEMA", lambda f: rewrite(f, lambda t: t.drop_columns(["lk0"]))),
    "a column that also exists in capitals": (
        "UNKNOWN_SCHEMA",
        lambda f: rewrite(f, lambda t: t.append_column("AT", t["at"])),
    ),
    "long texts that are small while compressed": (
        "UNKNOWN_SCHEMA",
        lambda f: rewrite(f, lambda t: t.set_column(17, "reason", pa.array([letter * 10_000_000 for letter in "xy"]))),
    ),
    "an institution that claims to be the hub": ("MANIFEST_WRONG", lambda f: set_manifest(f, role="platform")),
    "rows of another node": ("OTHER_NODE", lambda f: rewrite(f, with_other_node, statistics=False)),
    "a row without a node": (
        "OTHER_NODE",
        lambda f: rewrite(f, lambda t: t.set_column(0, "node", pa.array([None, "1.b"]))),
    ),
    "a node that is not a valid text": ("TRUNCATED", lambda f: rewrite(f, with_invalid_node)),
    "a manifest that is a folder": ("MANIFEST_WRONG", make_manifest_a_folder),
    "no manifest yet": ("UNFINISHED", lambda f: (f / "_manifest.json").unlink()),
}


@pytest.mark.parametrize("fault", WRONG)
def test_every_fault_of_an_extract_has_a_state(office: Office, folder: Path, fault: str) -> None:
    state, change = WRONG[fault]
    change(folder)
    assert states(office) == {"1.a.1.1": "COMPLETE", "1.b.1.1": state, f"{HUB}.1.1": "COMPLETE"}
    assert {source.state for source in inputs.gather(office.extracts, [DAY]) if source.is_used} == {"COMPLETE"}


def test_an_empty_extract_and_dictionary_columns_are_accepted(office: Office, folder: Path) -> None:
    office.ledger_of("1.c")
    office.extract(only=["1.c"])
    rewrite(folder, lambda t: t.set_column(0, "node", t["node"].dictionary_encode()))
    assert states(office) == {
        "1.a.1.1": "COMPLETE",
        "1.b.1.1": "COMPLETE",
        "1.c.1.1": "EMPTY",
        f"{HUB}.1.1": "COMPLETE",
    }


def test_a_wrong_range_in_a_manifest_is_noted(office: Office, folder: Path) -> None:
    def state_and_note() -> tuple[str, str]:
        (source,) = (source for source in inputs.gather(office.extracts, [DAY]) if source.source == "1.b.1.1")
        return source.state, source.note

    assert state_and_note() == ("COMPLETE", "")
    set_manifest(folder, seq_last=999)
    assert state_and_note() == ("COMPLETE", "its manifest states another range of seq than 1 to 2")
    set_manifest(folder, seq_first=None, seq_last=None, at_first=0)
    assert state_and_note()[1].startswith("its manifest states another range of at than 1795168")
    rewrite(folder, lambda table: table, statistics=False)
    assert state_and_note() == ("COMPLETE", "")


def test_an_extract_that_is_replaced_while_it_is_checked_is_checked_again(
    office: Office, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = folder.glob("part-*.parquet")

    def replace_and_check(part: ExtractPart, file: Place, manifest: Manifest) -> CheckedFile:
        if part.name == old.name and old.exists():
            office.write(OfficeMessage(2), FORWARD_COURSE)
            office.extract(only=["1.b"])
        return checked_file(part, file, manifest)

    monkeypatch.setattr(inputs, "checked_file", replace_and_check)
    (source,) = (source for source in inputs.gather(office.extracts, [DAY]) if source.source == "1.b.1.1")
    assert not old.exists()
    assert (source.state, source.manifest) == ("COMPLETE", read_manifest((folder / "_manifest.json").read_bytes()))


def test_an_extract_delivered_twice_is_used_once(office: Office, folder: Path) -> None:
    shutil.copytree(folder, folder.with_name("ledger=copy"))
    found = [source for source in inputs.gather(office.extracts, [DAY]) if source.source == "1.b.1.1"]
    assert sorted(source.state for source in found) == ["COMPLETE", "REPEATED"]


def test_a_later_extract_supersedes_an_earlier_one(office: Office, folder: Path) -> None:
    older = folder.with_name("ledger=older")
    shutil.copytree(folder, older)
    described = json.loads((older / "_manifest.json").read_text())
    set_manifest(older, watermark=described["watermark"] - 1)
    rewrite(older, lambda t: t.slice(1), rows=described["rows"] - 1)
    described = json.loads((older / "_manifest.json").read_text())
    described["files"][0]["rows"] -= 1
    (older / "_manifest.json").write_text(json.dumps(described))
    found = {source.folder.name: source.state for source in inputs.gather(office.extracts, [DAY]) if source.folder}
    assert found["ledger=older"] == "SUPERSEDED"
    assert found["ledger=1.b.1.1"] == "COMPLETE"


def test_two_extracts_that_contradict_each_other_are_both_refused(office: Office, folder: Path) -> None:
    other = folder.with_name("ledger=other")
    shutil.copytree(folder, other)
    rewrite(other, lambda t: t.set_column(3, "at", pa.array([at + 1 for at in t["at"].to_pylist()])))
    found = [source.state for source in inputs.gather(office.extracts, [DAY]) if source.source == "1.b.1.1"]
    assert found == ["CONFLICTING", "CONFLICTING"]


def test_required_signatures_are_checked(office: Office, folder: Path) -> None:
    set_manifest(folder, signature={"key_id": "b", "algorithm": "test", "value": "right"})
    set_manifest(office.folder(HUB), signature={"key_id": "h", "algorithm": "test", "value": "wrong"})

    def verify(node: str, signed: bytes, signature: Signature, since: int | None) -> bool:
        assert since == MIDNIGHT + 24 * HOUR  # the watermark of the extract
        return signature.value == "right" and node == "1.b"

    found = {source.source: source.state for source in inputs.gather(office.extracts, [DAY], verify)}
    assert found == {"1.a.1.1": "UNSIGNED", "1.b.1.1": "COMPLETE", f"{HUB}.1.1": "BAD_SIGNATURE"}


def test_missing_sources_are_named_by_node_or_ledger(office: Office, folder: Path) -> None:
    found = inputs.gather(office.extracts, [DAY])
    assert inputs.missing(["1.a", "1.b.1.1", "1.c", "1.b.1.2"], found, DAY) == [
        Source(DAY, "1.b.1.2", "MISSING"),
        Source(DAY, "1.c", "MISSING"),
    ]


def test_the_facts_of_a_source_do_not_contain_its_path(office: Office, folder: Path) -> None:
    (source,) = (one for one in inputs.gather(office.extracts, [DAY]) if one.source == "1.b.1.1")
    assert str(office.root) not in json.dumps(source.facts())
    assert source.facts()["rows"] == 2


def test_every_state_has_its_own_name() -> None:
    assert len(STATES) == len({state.name for state in STATES})
