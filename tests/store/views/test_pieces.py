"""The recorded pieces of one document, among pieces of other documents and institutions."""

from hashlib import sha256
from typing import Any

import psycopg
from sqlalchemy import create_engine

from semq.engine.stored_envelopes import encode_envelope
from semq.store.rows import ArrivedPiece
from semq.store.views.pieces import arrived, pieces_of
from semq.umx_t.address import parse_address
from semq.umx_t.app_key import AppKey
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.locator import parse_lk0
from semq.umx_t.pieces import PIECES_USER, PieceName
from semq.umx_t.status import Arrival

DOCUMENT = "1.10008.1.1.ab.7"
SIMILAR = ["1.10008.1.1.ab.77", "1.10008.1.1.ab.17", "1.10008.1.1.ab.8"]


def record(
    connection: psycopg.Connection[Any], bref: int, name: str, part: bytes, source: str = "1.10008", **attributes: Any
) -> None:
    """Store a piece, or a notice, as the receiver's node does. Rows with a bref below 12 arrived 40 days ago."""
    envelope = Envelope(
        source=parse_address(source), target=parse_address(f"56001/{PIECES_USER}"),
        lk0=parse_lk0(f"{source}.1.1.ab.{bref}"),
        attributes=Attributes(app_key=AppKey("a", DOCUMENT, "", ""), pieces=name, **attributes),
        digest=sha256(part).digest(),
    )  # fmt: skip
    connection.execute(
        "INSERT INTO tb_0030 (bref, lk0, store, inc, src_object_id, target, target_user, source, save_fwd, ack2,"
        " status, size, digest, received_at)"
        " VALUES (%s, %s, %s, 171, %s, '56001', %s, %s, 3, true, %s, %s, %s, now() - %s * interval '1 day')",
        (
            bref, str(envelope.lk0), f"{source}.1.1", bref, PIECES_USER, source, Arrival.RECV, len(part),
            envelope.digest, 40 if bref < 12 else 0,
        ),
    )  # fmt: skip
    connection.execute(
        "INSERT INTO tb_0030_body (bref, envelope, payload) VALUES (%s, %s, %s)",
        (bref, encode_envelope(envelope), part),
    )


def test_the_pieces_of_one_document_and_pages_of_all_pieces_are_read(database: str) -> None:
    with psycopg.connect(database) as connection:
        for number in range(3):
            record(connection, 10 + number, str(PieceName(DOCUMENT, number)), b"%d" % number)
        record(connection, 20, str(PieceName(DOCUMENT, 12_345_678)), b"long")
        record(connection, 21, DOCUMENT, b"")  # a notice
        record(connection, 22, str(PieceName(DOCUMENT, 0)), b"foreign", source="1.10009")
        planted = f'","pieces":"{PieceName(DOCUMENT, 6)}","digest":"'
        record(connection, 23, str(PieceName(DOCUMENT, 5)), b"planted", content_type=planted)
        record(connection, 24, str(PieceName(SIMILAR[0], 5)), b"planted", content_type=planted)
        for bref, name in enumerate(SIMILAR, 30):
            record(connection, bref, str(PieceName(name, 0)), b"other")
    engine = create_engine(database.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.connect() as reader:
            pieces = pieces_of(reader, "1.10008", DOCUMENT)
            assert sorted(pieces) == [
                *(ArrivedPiece(10 + n, n, 1, sha256(b"%d" % n).digest()) for n in range(3)),
                ArrivedPiece(20, 12_345_678, 4, sha256(b"long").digest()),
                ArrivedPiece(23, 5, 7, sha256(b"planted").digest()),
            ]
            pages = [[message.bref for message in arrived(reader, "1.10008", after, 5)] for after in (0, 21, 32)]
            assert pages == [[10, 11, 12, 20, 21], [23, 24, 30, 31, 32], []]
            now_ms = int(reader.exec_driver_sql("SELECT extract(epoch FROM now()) * 1000").scalar_one())
            assert [message.bref for message in arrived(reader, "1.10008", 0, 9, now_ms - 86_400_000)] == [10, 11]
    finally:
        engine.dispose()
