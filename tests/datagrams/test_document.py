"""Documents in datagrams, and refusal of other bytes."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from semq.amqp.content import ContentHeader, Properties
from semq.datagrams.document import CarriedDocument, read_document, write_document

HEADER = ContentHeader.build(4, Properties(type="0.data", headers={"@Envelope": b"x"}))


@given(st.integers(0, 2**32), st.text(max_size=100), st.binary(max_size=1000))
def test_a_document_is_read_as_it_was_written(number: int, routing_key: str, body: bytes) -> None:
    document = CarriedDocument(routing_key, ContentHeader.build(len(body), Properties(type="0.data")), body)
    assert read_document(write_document(number, document)) == (number, document)


@given(st.binary(max_size=300))
def test_other_bytes_are_no_document_or_a_document_of_the_stated_length(content: bytes) -> None:
    numbered = read_document(content)
    assert numbered is None or len(numbered[1].body) == numbered[1].header.body_size


def test_a_body_of_another_length_a_negative_number_or_a_broken_header_is_no_document() -> None:
    for fields in (
        (0, "1.1", HEADER.raw, b"12345"),
        (-1, "1.1", HEADER.raw, b"1234"),
        (0, "1.1", HEADER.raw[:5], b"1234"),
        (0, "1.1", b"\0\1" + HEADER.raw[2:], b"1234"),
    ):
        assert read_document(msgspec.msgpack.encode(fields)) is None
