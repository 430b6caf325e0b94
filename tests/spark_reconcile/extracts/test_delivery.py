"""Pieces of parcels: in any order, repeated, damaged or foreign."""

import dataclasses
from errno import ENOSPC
from pathlib import Path
from random import Random

import pytest

from semq.app import AppKey, Document
from spark_reconcile.errors import BadExtract, BeingRun
from spark_reconcile.extracts import delivery, parcel
from spark_reconcile.extracts.delivery import SPOOL, Collector, Piece, cut, read_piece
from spark_reconcile.extracts.manifest import date_folder, folder_of
from spark_reconcile.storage import Place
from tests.spark_reconcile.damage import damage_column
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, Office, OfficeMessage


def document(body: bytes, source: str = "1.a/reports") -> Document:
    return Document("1.a.1.1.3f.1", source, "1.ops", AppKey(), body, "")


@pytest.fixture
def folder(office: Office) -> Place:
    for number in range(200):
        office.write(OfficeMessage(number), FORWARD_COURSE)
    office.extract()
    return Place.at(office.folder("1.a"))


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    return Collector(Place.at(tmp_path / "storage"))


def content(place: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in place.iterdir() if not file.name.startswith(".")}


@pytest.mark.parametrize("seed", range(3))
def test_pieces_are_joined_in_any_order_and_when_repeated(folder: Place, collector: Collector, seed: int) -> None:
    pieces = [document(piece.encode()) for piece in cut(folder, 500)]
    assert len(pieces) > 3
    order = [*pieces[:-1], *pieces[:2]]
    Random(seed).shuffle(order)
    assert [collector.accept(piece) for piece in order] == [None] * len(order)
    manifest = collector.accept(pieces[-1])
    assert manifest is not None
    arrived = Path(f"{collector.root}/business_date={DAY}/ledger=1.a.1.1")
    assert content(arrived) == content(Path(str(folder)))
    assert (collector.root / SPOOL / "1.a").folders() == []


def test_a_small_extract_is_one_piece(folder: Place, collector: Collector) -> None:
    [piece] = cut(folder)
    assert collector.accept(document(piece.encode())) is not None


def test_a_parcel_with_a_changed_byte_is_refused_and_removed(folder: Place, collector: Collector) -> None:
    *pieces, last = cut(folder, 500)
    for piece in pieces:
        assert collector.accept(document(piece.encode())) is None
    wrong = dataclasses.replace(last, content=last.content[:-1] + bytes([last.content[-1] ^ 1]))
    with pytest.raises(BadExtract):
        collector.accept(document(wrong.encode()))
    assert not Path(f"{collector.root}/business_date={DAY}/ledger=1.a.1.1/_manifest.json").exists()
    assert (collector.root / SPOOL / "1.a").folders() == []


@pytest.mark.parametrize("fault", ["a full disk", "another process"])
def test_no_piece_is_lost_if_the_parcel_cannot_be_joined_yet(
    folder: Place, collector: Collector, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    *pieces, last = [document(piece.encode()) for piece in cut(folder, 500)]
    for piece in pieces:
        assert collector.accept(piece) is None
    if fault == "a full disk":
        with monkeypatch.context() as patch:
            patch.setattr(parcel, "_write_part", full_disk)
            with pytest.raises(OSError, match="No space left"):
                collector.accept(last)
    else:
        with (collector.root / date_folder(DAY) / folder_of("1.a", "1.1")).lock(), pytest.raises(BeingRun):
            collector.accept(last)
    assert collector.accept(last) is not None
    assert (collector.root / SPOOL / "1.a").folders() == []


def full_disk(*given: object) -> None:
    raise OSError(ENOSPC, "No space left on device")


def test_a_piece_that_arrives_again_after_its_parcel_was_joined_leaves_nothing(
    folder: Place, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_JOINED_MAX", 2)
    pieces = [document(piece.encode()) for piece in cut(folder, 500)]
    for _ in range(3):
        assert [collector.accept(piece) for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
        assert collector.accept(pieces[-1]) is not None
        for piece in pieces:
            assert collector.accept(piece) is None
        assert (collector.root / SPOOL / "1.a").folders() == []
        (collector.root / date_folder(DAY) / folder_of("1.a", "1.1")).remove()  # then the parcel is accepted again


def test_a_delivery_that_goes_on_with_pieces_of_another_size_is_complete(folder: Place, collector: Collector) -> None:
    first = list(cut(folder, 500))
    for piece in first[:3]:
        collector.accept(document(piece.encode()))
    second = list(cut(folder, 400))
    manifests = [collector.accept(document(piece.encode())) for piece in second]
    assert [manifest is not None for manifest in manifests] == [False] * (len(second) - 1) + [True]


def test_the_number_of_pieces_determines_their_bytes(folder: Place) -> None:
    size = len(b"".join(piece.content for piece in cut(folder)))
    by_count: dict[int, list[Piece]] = {}
    for piece_bytes in range(1, size + 2):
        pieces = list(cut(folder, piece_bytes))
        assert [piece.number for piece in pieces] == list(range(1, pieces[0].count + 1))
        assert max(len(piece.content) for piece in pieces) <= piece_bytes
        assert by_count.setdefault(len(pieces), pieces) == pieces


def test_extracts_of_another_node_are_refused(folder: Place, collector: Collector) -> None:
    [piece] = cut(folder)
    with pytest.raises(BadExtract, match="another node"):
        collector.accept(document(piece.encode(), "1.b"))


def test_extracts_without_a_required_signature_are_refused_and_leave_nothing(
    folder: Place, collector: Collector
) -> None:
    collector.verify = lambda node, content, signature, since: True
    [piece] = cut(folder)
    with pytest.raises(BadExtract, match="signature"):
        collector.accept(document(piece.encode()))
    assert (collector.root / SPOOL / "1.a").folders() == []


def test_unfinished_parcels_of_a_node_are_bounded(folder: Place, collector: Collector) -> None:
    collector.bytes_max = 900
    first, second, *_ = cut(folder, 500)
    for _ in range(2):  # a repeated piece needs no more room
        assert collector.accept(document(first.encode())) is None
    with pytest.raises(BadExtract, match="full") as caught:
        collector.accept(document(second.encode()))
    assert SPOOL in caught.value.remedy


def test_the_number_of_pieces_of_a_node_in_the_spool_is_bounded(
    folder: Place, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "SPOOLED_MAX", 2)
    pieces = [document(piece.encode()) for piece in cut(folder, 500)]
    for piece in (*pieces[:2], *pieces[:2]):
        assert collector.accept(piece) is None
    with pytest.raises(BadExtract, match="full"):
        collector.accept(pieces[2])
    again = Collector(collector.root)  # another process counts what is on the disk
    with pytest.raises(BadExtract, match="full"):
        again.accept(pieces[2])
    assert again.accept(document(next(cut(folder, 500)).encode(), "1.b/reports")) is None


def test_a_piece_costs_no_search_of_the_spool(
    folder: Place, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces of parcels that are never completed would otherwise make every later piece of all nodes slower."""
    [*pieces, _] = cut(folder, 500)
    collector.accept(document(pieces[0].encode()))
    monkeypatch.setattr(Place, "_entries", lambda place: pytest.fail(f"{place} was searched"))
    for piece in pieces[1:]:
        assert collector.accept(document(piece.encode())) is None


@pytest.mark.parametrize(
    "error", [ValueError("negative"), OverflowError(), MemoryError(), RecursionError(), KeyError("x")]
)
def test_a_parcel_that_cannot_be_processed_is_refused_like_a_wrong_one(
    folder: Place, collector: Collector, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*given: object) -> None:
        raise error

    [piece] = cut(folder)
    with monkeypatch.context() as patch:
        patch.setattr(parcel, "_write_part", fail)
        with pytest.raises(BadExtract) as caught:
            collector.accept(document(piece.encode()))
    assert type(error).__name__ in str(caught.value.facts["why"])
    assert (collector.root / SPOOL / "1.a").folders() == []
    assert collector.accept(document(piece.encode())) is not None


def test_an_extract_with_a_column_that_cannot_be_decoded_is_refused_at_arrival(
    folder: Place, collector: Collector
) -> None:
    """Otherwise Spark would fail in every run over the extracts of all."""
    damage_column(Path(folder.path), "lk0")
    [piece] = cut(folder)
    with pytest.raises(BadExtract) as caught:
        collector.accept(document(piece.encode()))
    assert caught.value.facts["state"] == "TRUNCATED"


def test_an_extract_with_too_many_pieces_is_refused_with_the_setting_to_raise(
    folder: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "PIECES_MAX", 2)
    with pytest.raises(BadExtract) as caught:
        next(cut(folder, 100))
    assert "piece_bytes" in caught.value.remedy


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"an order",
        Piece("00" * 32, 2, 1, b"x").encode(),
        Piece("00" * 32, 0, 1, b"x").encode(),
        Piece("00" * 32, 1, 1 << 20, b"x").encode(),
        Piece("00" * 32, 1, 1, b"x").encode()[:-6],
        Piece("00" * 32, 1, 2, b"").encode(),
    ],
)
def test_an_invalid_piece_is_refused(body: bytes) -> None:
    with pytest.raises(BadExtract):
        read_piece(body)


def test_an_unfinished_extract_is_not_cut_into_pieces(tmp_path: Path) -> None:
    with pytest.raises(BadExtract):
        next(cut(Place.at(tmp_path)))
