"""Parcels: an extract arrives unchanged, a repeated parcel changes nothing, and invalid parcels are refused."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reconcile.days import Calendar
from spark_reconcile.errors import BadExtract
from spark_reconcile.extracts import parcel
from spark_reconcile.extracts.extract import Extract, LedgerOrigin, batches_of
from spark_reconcile.extracts.manifest import Signature, read_manifest
from spark_reconcile.sources import inputs
from spark_reconcile.storage import Place
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, Office, OfficeMessage, StandingClock


@pytest.fixture
def packed(office: Office) -> bytes:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    return b"".join(parcel.pack(Place.at(office.folder("1.a"))))


def test_an_extract_arrives_unchanged(office: Office, packed: bytes, tmp_path: Path) -> None:
    hub = Place.at(tmp_path / "hub")
    received = [parcel.receive(io.BytesIO(packed), hub, "1.a") for _ in range(2)]
    assert received[0] == received[1] == read_manifest((office.folder("1.a") / "_manifest.json").read_bytes())
    assert [source.state for source in inputs.gather(hub, [DAY])] == ["COMPLETE"]


def test_an_older_parcel_does_not_replace_a_newer_extract(
    office: Office, packed: bytes, clock: StandingClock, tmp_path: Path
) -> None:
    hub = Place.at(tmp_path / "hub")
    newer = parcel.receive(io.BytesIO(packed), hub, "1.a")
    clock.now = clock.now.replace(day=20)
    office.extract(only=["1.a"])
    older = b"".join(parcel.pack(Place.at(office.folder("1.a"))))
    assert parcel.receive(io.BytesIO(older), hub, "1.a") == newer


@pytest.mark.parametrize(
    ("signature", "state"), [(None, "UNSIGNED"), ("of another", "BAD_SIGNATURE"), ("good", "COMPLETE")]
)
def test_an_extract_without_a_valid_signature_is_refused_where_one_is_required(
    office: Office, tmp_path: Path, signature: str | None, state: str
) -> None:
    sign = (lambda content: Signature("key", "semq-1", signature)) if signature else None
    with Extract(office.extracts, LedgerOrigin("1.a"), DAY, Calendar(), office.clock, sign=sign) as extract:
        extract.add_all(batches_of(office.lines_of(OfficeMessage(1), FORWARD_COURSE)[:1]))
        extract.finish()
    hub = Place.at(tmp_path / "hub")
    stream = io.BytesIO(b"".join(parcel.pack(Place.at(office.folder("1.a")))))

    def verify(node: str, content: bytes, given: Signature, since: int | None) -> bool:
        return node == "1.a" and given.value == "good"

    if state == "COMPLETE":
        assert parcel.receive(stream, hub, "1.a", verify=verify).rows == 1
        return
    with pytest.raises(BadExtract) as caught:
        parcel.receive(stream, hub, "1.a", verify=verify)
    assert caught.value.facts["state"] == state
    assert inputs.gather(hub, [DAY]) == []


@pytest.mark.parametrize("end", [3, 20, 100, -5])
def test_a_truncated_parcel_changes_nothing(packed: bytes, tmp_path: Path, end: int) -> None:
    with pytest.raises(BadExtract):
        parcel.receive(io.BytesIO(packed[:end]), Place.at(tmp_path / "hub"), "1.a")
    assert not list((tmp_path / "hub").rglob("_manifest.json"))


def test_a_parcel_that_is_too_long_or_of_another_node_is_refused(packed: bytes, tmp_path: Path) -> None:
    hub = Place.at(tmp_path / "hub")
    for stream, node, state in ((packed, "1.b", "OTHER_NODE"), (packed + b"x", "1.a", "OTHER_ROWS")):
        with pytest.raises(BadExtract) as caught:
            parcel.receive(io.BytesIO(stream), hub, node)
        assert caught.value.facts["state"] == state
    with pytest.raises(BadExtract):
        parcel.receive(io.BytesIO(packed), hub, "1.a", bytes_max=10)
    assert inputs.gather(hub, [DAY]) == [] or inputs.gather(hub, [DAY])[0].state == "UNFINISHED"


@pytest.mark.parametrize(
    ("stated", "instead", "state"),
    [
        (b'"store": "1.1"', b'"store": "0.1"', "OTHER_NODE"),
        (b'"rows": ', b'"rows": 1', "OTHER_ROWS"),
        (b'"business_date": "2026-11-20"', b'"business_date": "2026-11-21"', "MANIFEST_WRONG"),
        (b'"cutoff": "00:00"', b'"cutoff": "18:00"', "MANIFEST_WRONG"),
    ],
)
def test_a_manifest_that_contradicts_its_files_is_refused_immediately(
    packed: bytes, tmp_path: Path, stated: bytes, instead: bytes, state: str
) -> None:
    hub = Place.at(tmp_path / "hub")
    parcel.receive(io.BytesIO(packed), hub, "1.a")
    before = {file: file.read_bytes() for file in (tmp_path / "hub").rglob("*") if file.is_file()}
    assert stated in packed
    head, manifest, files = packed[:15], packed[23 : 23 + int.from_bytes(packed[15:23])], packed[23:]
    altered = manifest.replace(stated, instead)
    altered_parcel = head + len(altered).to_bytes(8, "big") + altered + files[len(manifest) :]
    with pytest.raises(BadExtract) as caught:
        parcel.receive(io.BytesIO(altered_parcel), hub, "1.a")
    assert caught.value.facts["state"] == state
    after = {file: file.read_bytes() for file in (tmp_path / "hub").rglob("*") if file.is_file()}
    assert {file: content for file, content in after.items() if file.name != ".lock"} == {
        file: content for file, content in before.items() if file.name != ".lock"
    }


def test_a_refused_parcel_changes_no_extract(office: Office, packed: bytes, tmp_path: Path) -> None:
    hub = Place.at(tmp_path / "hub")
    parcel.receive(io.BytesIO(packed), hub, "1.a")
    office.write(OfficeMessage(2), FORWARD_COURSE)
    office.extract(only=["1.a"])
    newer = b"".join(parcel.pack(Place.at(office.folder("1.a"))))
    for broken in (newer[:-5], newer + b"x", newer[:-5] + b"x" + newer[-4:]):
        with pytest.raises(BadExtract):
            parcel.receive(io.BytesIO(broken), hub, "1.a")
        assert [(source.state, source.manifest.rows) for source in inputs.gather(hub, [DAY]) if source.manifest] == [
            ("COMPLETE", read_manifest(packed[23 : 23 + int.from_bytes(packed[15:23])]).rows)
        ]
        assert not list((tmp_path / "hub").rglob(parcel.ARRIVING))


@given(data=st.data())
def test_a_changed_byte_never_leads_to_a_wrong_extract(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("parcel")
    office = Office(root, StandingClock())
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract(only=["1.a"])
    packed = bytearray(b"".join(parcel.pack(Place.at(office.folder("1.a")))))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    hub = Place.at(root / "hub")
    try:
        parcel.receive(io.BytesIO(packed), hub, "1.a")
    except BadExtract:
        assert not list((root / "hub").rglob("_manifest.json"))
    else:
        assert all(source.is_used or source.state == "MANIFEST_WRONG" for source in inputs.gather(hub, [DAY]))


def test_a_folder_without_an_extract_is_not_packed(tmp_path: Path) -> None:
    with pytest.raises(BadExtract):
        list(parcel.pack(Place.at(tmp_path)))
