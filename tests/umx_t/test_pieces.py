"""Names of pieces and manifests: encoding, decoding, and invalid input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.umx_t.errors import BadManifest
from semq.umx_t.pieces import (
    PIECES_MAX,
    PieceName,
    PiecesManifest,
    digest_of,
    document_detail,
    parse_piece_name,
    read_manifest,
)

HASH = "0" * 64


@given(st.integers(0, PIECES_MAX - 1))
def test_a_name_is_read_as_it_was_written(number: int) -> None:
    name = PieceName("1.10008.1.1.ab.7", number)
    assert parse_piece_name(str(name)) == name


@pytest.mark.parametrize("text", ["", "1.1", "/3", "1.1/", "1.1/-1", "1.1/x", "1.1/²", f"1.1/{PIECES_MAX}"])
def test_an_invalid_name_is_refused(text: str) -> None:
    with pytest.raises(BadManifest):
        parse_piece_name(text)


@given(st.integers(1, 10_000), st.integers(1, 100))
def test_the_pieces_make_up_the_document(size: int, piece_bytes: int) -> None:
    manifest = PiecesManifest(size, piece_bytes, HASH, HASH)
    assert read_manifest(manifest.encode()) == manifest
    sizes = [manifest.size_of(number) for number in range(manifest.count)]
    assert sum(sizes) == size
    assert set(sizes[:-1]) <= {piece_bytes}
    assert 0 < sizes[-1] <= piece_bytes


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{}",
        b'{"size":1,"digest":"\xff"}',  # no UTF-8
        b'{"x":' + b"[" * 100_000,
        b'{"size":0,"piece_bytes":1,"pieces":"%b","digest":"%b"}' % (HASH.encode(), HASH.encode()),
        b'{"size":1,"piece_bytes":0,"pieces":"%b","digest":"%b"}' % (HASH.encode(), HASH.encode()),
        b'{"size":1,"piece_bytes":1,"pieces":"x","digest":"%b"}' % HASH.encode(),
        b'{"size":%d,"piece_bytes":1,"pieces":"%b","digest":"%b"}' % (PIECES_MAX + 1, HASH.encode(), HASH.encode()),
    ],
)
def test_a_manifest_with_impossible_values_is_refused(payload: bytes) -> None:
    with pytest.raises(BadManifest):
        read_manifest(payload)


def test_the_digest_depends_on_the_order() -> None:
    assert digest_of([b"a" * 32, b"b" * 32]) != digest_of([b"b" * 32, b"a" * 32])


def test_ledger_lines_distinguish_a_piece_from_its_manifest() -> None:
    assert document_detail("1.a.1.1.3f.7/2") == "piece 1.a.1.1.3f.7/2"
    assert document_detail("1.a.1.1.3f.7") == "manifest of 1.a.1.1.3f.7"
