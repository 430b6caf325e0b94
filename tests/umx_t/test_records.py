"""Records: encoding, decoding, newer fields, and hostile bytes, which may raise BadRecord only."""

import sys
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.umx_t.envelope import Function, Primitive
from semq.umx_t.errors import BadRecord, PacketTooLarge
from semq.umx_t.records import (
    FLOORS_MAX,
    PACKET_BYTES_MAX,
    RECORDS_MAX,
    RESULT_OF,
    AckFlag,
    Answer,
    ChannelRecord,
    Inquiry,
    InquiryRole,
    Presence,
    Receipt,
    decode_records,
    encode_records,
    record_size,
)
from tests.umx_t.samples.strategies import inquiries, presences, receipts

RECEIPTS = (Function.RECEIPTS, Primitive.INDICATION)
REACKS = (Function.RECEIPTS, Primitive.RESPONSE)
INQUIRIES = (Function.INQUIRIES, Primitive.REQUEST)
KINDS = [
    RECEIPTS,
    REACKS,
    INQUIRIES,
    (Function.INQUIRIES, Primitive.CONFIRMATION),
    (Function.PRESENCE, Primitive.INDICATION),
    (Function.DATAGRAMS, Primitive.INDICATION),
]
kinds = st.sampled_from(KINDS)


@given(st.lists(receipts, max_size=3))
def test_receipts_are_decoded_as_they_were_encoded(sent: list[Receipt]) -> None:
    assert decode_records(Function.RECEIPTS, Primitive.RESPONSE, encode_records(sent)) == sent


@given(st.lists(inquiries, max_size=3))
def test_inquiries_are_decoded_as_they_were_encoded(sent: list[Inquiry]) -> None:
    assert decode_records(Function.INQUIRIES, Primitive.REQUEST, memoryview(encode_records(sent))) == sent


@given(st.lists(presences, max_size=3))
def test_presence_is_decoded_as_it_was_encoded(sent: list[Presence]) -> None:
    assert decode_records(Function.PRESENCE, Primitive.INDICATION, encode_records(sent)) == sent


@pytest.mark.parametrize(
    "record",
    [
        {"secret": "00" * 32},
        {"id": "00"},
        {"id": "00" * 8, "secret": "00"},
        {"id": "00" * 8, "port": 65_536},
        {"id": "00" * 8, "host": "a b"},
        {"id": "00" * 8, "sent": -1},
    ],
)
def test_datagram_channels_with_invalid_values_are_refused(record: dict[str, Any]) -> None:
    with pytest.raises(BadRecord):
        decode_records(Function.DATAGRAMS, Primitive.INDICATION, msgspec.json.encode([record]))


def test_a_datagram_channel_is_decoded_as_it_was_encoded() -> None:
    sent = [ChannelRecord(id="0f" * 8, secret="ab" * 32, host="hub.example", port=5671)]
    assert decode_records(Function.DATAGRAMS, Primitive.INDICATION, encode_records(sent)) == sent


def test_defaults_are_left_out_and_come_back() -> None:
    assert encode_records([Receipt(ident="1.a.1.1.1.1")]) == b'[{"ident":"1.a.1.1.1.1"}]'
    assert decode_records(*RECEIPTS, b"[{}]") == [Receipt()]


def test_fields_of_a_newer_version_are_tolerated() -> None:
    assert decode_records(*INQUIRIES, b'[{"ref_id":7,"colour":{"deep":[1,2,{}]}}]') == [Inquiry(ref_id=7)]


@pytest.mark.parametrize("function", Function)
@pytest.mark.parametrize("primitive", Primitive)
def test_only_packets_of_known_kinds_are_read(function: Function, primitive: Primitive) -> None:
    if (function, primitive) in KINDS:
        assert decode_records(function, primitive, b"[]") == []
    else:
        with pytest.raises(BadRecord):
            decode_records(function, primitive, b"[]")


TOO_BIG = str(2**63).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"null",
        b"[null]",
        b"[[]]",
        b"[{}",
        b'[{"ident":"\xff"}]',
        b'[{"ident":"\\ud800"}]',
        b'[{"ident":"\\u0000"}]',
        b'[{"ident":"' + b"1" * 161 + b'"}]',
        b'[{"digest":"00"}]',
        b'[{"digest":"' + b"A" * 64 + b'"}]',
        b'[{"reason":["SEMQ-1209","a\\u0000b"]}]',
        b'[{"reason":["SEMQ-1209"]}]',
        b'[{"src_ref_id":-1}]',
        b'[{"src_ref_id":' + TOO_BIG + b"}]",
        b'[{"src_ref_id":1e400}]',
        b'[{"src_ref_id":1.5}]',
        b'[{"src_semq_id":1000000000}]',
        b'[{"lk1":[1,1]}]',
        b'[{"lk1":[1,1,' + TOO_BIG + b"]}]",
        b'[{"floors":{"x":[1,null]}}]',
        b'[{"floors":{"8000000000000000":[1,null]}}]',
        b'[{"floors":{"":[1,null]}}]',
        b'[{"floors":{"1":[-1,null]}}]',
        b'[{"floors":{"1":[1,' + TOO_BIG + b"]}}]",
        b'[{"status":"PERHAPS"}]',
        b'[{"flag":9}]',
    ],
    ids=lambda body: repr(body[:40]),
)
def test_hostile_receipts_are_refused(body: bytes) -> None:
    with pytest.raises(BadRecord):
        decode_records(Function.RECEIPTS, Primitive.INDICATION, body)


def test_an_unknown_field_of_many_arrays_is_refused_or_ignored() -> None:
    """How deep a value may be depends on the version of Python: newer ones look at the stack, which may suffice."""
    with pytest.raises(BadRecord) if sys.version_info < (3, 12) else suppress(BadRecord):
        decode_records(Function.RECEIPTS, Primitive.INDICATION, b'[{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}]")


@pytest.mark.parametrize("fields", [b'"sid":-2', b'"sid":' + TOO_BIG, b'"nonce":-1', b'"floor":-1', b'"prev":"a b"'])
def test_hostile_inquiries_are_refused(fields: bytes) -> None:
    with pytest.raises(BadRecord):
        decode_records(Function.INQUIRIES, Primitive.REQUEST, b"[{" + fields + b"}]")


def test_too_many_records_are_refused() -> None:
    largest = b"[" + b"{}," * (RECORDS_MAX - 1) + b"{}]"
    assert len(decode_records(*RECEIPTS, largest)) == RECORDS_MAX
    with pytest.raises(PacketTooLarge) as refusal:
        decode_records(*RECEIPTS, b"[{}," + largest[1:])
    assert refusal.value.facts == {"count": RECORDS_MAX + 1, "allowed": RECORDS_MAX}


def test_braces_in_texts_do_not_count_as_records() -> None:
    reason = ("SEMQ-1214", "{" * 10)
    sent = [Receipt(reason=reason)] * (RECORDS_MAX - 1)
    assert decode_records(*RECEIPTS, encode_records(sent)) == sent
    with pytest.raises(PacketTooLarge):
        decode_records(*RECEIPTS, encode_records([*sent, *sent]))
    with pytest.raises(BadRecord, match="cannot be read"):
        decode_records(*RECEIPTS, encode_records(sent)[:-1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_packet_is_refused_for_its_size_before_it_is_decoded(kind: tuple[Function, Primitive]) -> None:
    body = b"x" * (PACKET_BYTES_MAX[kind] + 1)  # not even JSON
    with pytest.raises(PacketTooLarge):
        decode_records(*kind, body)


def test_too_many_floors_are_refused() -> None:
    half: dict[str, tuple[int, int | None]] = {f"{n:x}": (0, None) for n in range(FLOORS_MAX // 2)}
    largest = [Receipt(floors=half), Receipt(floors=half)]
    assert decode_records(*REACKS, encode_records(largest)) == largest
    with pytest.raises(PacketTooLarge):
        decode_records(*REACKS, encode_records([*largest, Receipt(floors={"1": (0, None)})]))


def test_the_largest_packets_of_honest_nodes_are_accepted() -> None:
    """500 receipts or inquiries with the longest names, numbers and reasons that a node of any version writes."""
    ident = "1." + "n" * 64 + ".999999999.999999999." + "7" * 16 + "." + "9" * 19
    largest, reason = 2**63 - 1, ("SEMQ-1214", "\N{CJK UNIFIED IDEOGRAPH-62D2}" * 500)
    names: dict[str, Any] = {"src_semq_id": 999_999_999, "src_semq_db_id": 999_999_999, "src_ref_id": largest,
                             "dest_ref_id": largest, "ident": ident}  # fmt: skip
    ack2 = Receipt(ack_flag=AckFlag.END_TO_END, status=Answer.REJ, reason=reason, digest="a" * 64, at=largest, **names)
    floors = {"7" * 16: (largest, None), "6" * 16: (largest, largest)}
    reack2 = Receipt(ack_flag=AckFlag.END_TO_END, floors=floors, **names)
    inquiry = Inquiry(
        semq_id=999_999_999, ref_id=largest, role=InquiryRole.S, ident=ident, sid=largest, nonce=largest,
        lk1=(9, 9, largest),
        answer=Answer.REJ, result=1, reason=reason, digest="a" * 64,
    )  # fmt: skip
    for kind, record in zip(KINDS, (ack2, reack2, inquiry, inquiry), strict=False):
        sent = [record] * 500
        assert decode_records(*kind, encode_records(sent)) == sent


@given(receipts | inquiries | presences)
def test_the_estimated_size_of_a_record_is_at_least_a_quarter_of_its_size(record: Any) -> None:
    assert record_size(record) >= len(encode_records([record])) / 4


json_like: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
field_names = st.sampled_from([*Receipt.__struct_fields__, *Inquiry.__struct_fields__, *Presence.__struct_fields__])
near_misses = st.lists(st.dictionaries(field_names, json_like, max_size=3), max_size=2)


@given(kinds, st.binary(max_size=80) | near_misses.map(msgspec.json.encode) | json_like.map(msgspec.json.encode))
def test_any_bytes_are_read_or_refused(kind: tuple[Function, Primitive], body: bytes) -> None:
    try:
        records = decode_records(*kind, body)
    except BadRecord:
        return
    assert decode_records(*kind, encode_records(records)) == records


def test_every_answer_of_the_receiver_has_a_number_for_older_peers() -> None:
    assert {answer for answer, result in RESULT_OF.items() if result == 1} == {
        Answer.RECV,
        Answer.REJ,
        Answer.VOID,
        Answer.SETTLED,
    }
    assert RESULT_OF[Answer.NOT] == 0
    assert not {Answer.CUSTODY, Answer.GONE, Answer.OFFLINE, Answer.UNAVAIL} & set(RESULT_OF)


@pytest.mark.parametrize(
    ("inquiry", "answer"),
    [
        ({"result": 1}, Answer.RECV),
        ({"result": 0}, Answer.NOT),
        ({"result": 1, "answer": Answer.VOID}, Answer.VOID),
        ({}, None),
    ],
)
def test_the_result_of_an_older_peer_counts_as_an_answer(inquiry: dict[str, Any], answer: Answer | None) -> None:
    assert Inquiry(**inquiry).effective_answer is answer
