"""The pieces of a document are put into the order of its manifest; wrong pieces are refused."""

import asyncio
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest

from local_node.doors.inbox import InboxQueue
from local_node.pieces.assembly import SEARCHES_MAX, Assembly, JoinedDelivery
from semq.engine.errors import PiecesMissing
from semq.engine.receiver.pieces import PieceStock, check_manifest, pieces_here, pieces_in_order
from semq.engine.settings import EngineSettings
from semq.store.rows import ArrivedPiece, StoredPiece
from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.errors import BadManifest
from semq.umx_t.locator import parse_lk0
from semq.umx_t.pieces import MANIFEST_MAX, PiecesManifest, digest_of
from tests.service.engine_handles import handle_of
from tests.waiting import until

A, B = Address(1, "10008"), Address(1, "56001")
DOCUMENT = "1.10008.1.1.ab.7"
PARTS = [b"aaaa", b"bbbb", b"cc"]
MANIFEST = PiecesManifest(10, 4, digest_of(sha256(part).digest() for part in PARTS), "0" * 64)


def piece(bref: int, number: int, part: bytes) -> ArrivedPiece:
    return ArrivedPiece(bref, number, len(part), sha256(part).digest())


ALL = [piece(10 + number, number, part) for number, part in enumerate(PARTS)]


def test_pieces_are_ordered_and_repetitions_are_left_out() -> None:
    repeated = piece(20, 1, PARTS[1])
    assert pieces_in_order([ALL[2], ALL[0], ALL[1], repeated], DOCUMENT, MANIFEST) == [10, 11, 12]


@pytest.mark.parametrize(
    "pieces",
    [
        ALL[:2],
        [*ALL[:2], piece(12, 3, PARTS[2])],
        [*ALL[:2], piece(12, 2, b"c")],
        [*ALL[:2], piece(12, 2, b"CC")],
        [piece(10, 1, PARTS[0]), piece(11, 0, PARTS[1]), ALL[2]],
        [],
    ],
    ids=["one is missing", "another number", "too short", "altered", "exchanged", "none"],
)
def test_a_document_with_wrong_pieces_is_not_delivered(pieces: list[ArrivedPiece]) -> None:
    with pytest.raises(PiecesMissing):
        pieces_in_order(pieces, DOCUMENT, MANIFEST)


def test_the_pieces_of_a_document_are_forgotten_when_the_last_consumer_goes_before_its_delivery() -> None:
    taken_back: list[int] = []
    engine: Any = SimpleNamespace(answers=SimpleNamespace(take_back=taken_back.extend))
    turn: Any = SimpleNamespace(before_flush=lambda work: None)
    consumer: Any = type("Consumer", (), {"credit": 0, "priority": 0, "exclusive": False})()
    assembly = Assembly(handle_of(engine), engine)
    assembly._pieces[7] = [10, 11, 12]  # as after the joining
    queue = InboxQueue("", handle_of(engine), turn, engine, assembly, lambda: None)
    queue.attach(consumer)
    envelope: Any = SimpleNamespace(attributes=SimpleNamespace(pieces=DOCUMENT))
    body: Any = None
    queue.give(JoinedDelivery(7, envelope, b"", redelivered=False, deliveries=1, body=body))
    queue.detach(consumer)
    assert taken_back == [7]
    assert assembly.take_with_pieces([7]) == [7]


def test_pieces_are_summed_up_by_number() -> None:
    assert pieces_here([ALL[2], ALL[0], ALL[1], piece(13, 1, b"again")]) == (3, 10, MANIFEST.pieces, (10, 11, 12))


@pytest.mark.parametrize("arrived", [ALL[:2], [*ALL[:2], piece(12, 2, b"dd")], [*ALL, piece(13, 3, b"")], []])
def test_a_manifest_of_other_pieces_than_those_here_is_refused(arrived: list[ArrivedPiece]) -> None:
    attributes = Attributes(pieces=DOCUMENT)
    envelope = Envelope(source=A, target=B, lk0=parse_lk0("1.10008.1.1.ab.9"), attributes=attributes)
    stock = PieceStock(StoredPiece(piece.bref, str(A), piece.size) for piece in [*ALL, *arrived])
    check_manifest(envelope, MANIFEST.encode(), pieces_here(ALL), stock, EngineSettings())
    with pytest.raises(PiecesMissing):
        check_manifest(envelope, MANIFEST.encode(), pieces_here(arrived), stock, EngineSettings())
    with pytest.raises(BadManifest):
        check_manifest(envelope, MANIFEST.encode() + b" " * MANIFEST_MAX, pieces_here(ALL), stock, EngineSettings())


@pytest.mark.parametrize("error", [PiecesMissing(lk0="x"), ValueError("not a manifest"), OverflowError()])
async def test_a_document_that_cannot_be_joined_fails_with_the_reason(error: Exception) -> None:
    failed: list[tuple[list[int], str]] = []
    engine: Any = SimpleNamespace(answers=SimpleNamespace(fail=lambda brefs, why: failed.append((brefs, why))))

    async def execute(*given: Any) -> Any:
        raise error

    assembly = Assembly(handle_of(engine), SimpleNamespace(execute=execute))  # type: ignore[arg-type]
    envelope: Any = SimpleNamespace(
        attributes=SimpleNamespace(pieces=DOCUMENT), lk0=parse_lk0("1.10008.1.1.ab.9"), ident="1.10008.1.1.ab.9"
    )
    delivery: Any = SimpleNamespace(bref=7, envelope=envelope, payload=MANIFEST.encode())
    released: list[str] = []
    assembly.join(delivery, lambda joined: None, lambda: released.append("not joined"))
    await until(lambda: bool(failed))
    assert failed == [([7], str(error) if isinstance(error, PiecesMissing) else repr(error))]
    assert released == ["not joined"]


async def test_the_searches_for_manifests_are_bounded_for_each_source() -> None:
    asked: list[tuple[str, str]] = []
    go_on = asyncio.Event()

    async def execute(query: Any, source: str, document: str) -> list[ArrivedPiece]:
        asked.append((source, document))
        await go_on.wait()
        return ALL

    engine: Any = object()
    handle, found = handle_of(engine), list[Any]()
    assembly = Assembly(handle, SimpleNamespace(execute=execute))  # type: ignore[arg-type]
    for number in range(2 * SEARCHES_MAX):
        for source in "1.a", "1.b":
            assembly.find_pieces(source, f"D{number}", found.append)
            assembly.find_pieces(source, f"D{number}", found.append)  # a repeated copy
    await until(lambda: asked == [("1.a", "D0"), ("1.b", "D0")])
    go_on.set()
    await until(lambda: len(found) == len(asked) == 2 * SEARCHES_MAX)
    assert len(set(asked)) == 2 * SEARCHES_MAX
    assembly.find_pieces("1.a", "D99", found.append)
    handle.current = object()  # the result is for a former engine
    await until(lambda: len(asked) == 2 * SEARCHES_MAX + 1 and not assembly._searches)
    assert len(found) == 2 * SEARCHES_MAX
