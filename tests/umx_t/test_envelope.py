"""Derived properties of attributes, envelopes and messages."""

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes, Data, Envelope, Function, Packet, Primitive
from semq.umx_t.locator import LK0, parse_lk0
from semq.umx_t.status import SaveFwd
from tests.umx_t.samples.strategies import envelopes

LK = LK0(1, "10008", 1, 1, 0xABC, 7)


@given(envelopes)
def test_the_ident_is_the_whole_source_locator(envelope: Envelope) -> None:
    assert parse_lk0(envelope.ident) == envelope.lk0


@pytest.mark.parametrize("save_fwd", SaveFwd)
def test_only_class_3_must_be_delivered(save_fwd: SaveFwd) -> None:
    envelope = Envelope(source=LK.node, target=LK.node, lk0=LK, attributes=Attributes(save_fwd=save_fwd))
    assert envelope.is_class3 is (save_fwd is SaveFwd.MUST)


@pytest.mark.parametrize(
    ("attributes", "is_best_effort"),
    [
        (Attributes(reliable=False, save_fwd=SaveFwd.DROP, ack2=False), True),
        (Attributes(reliable=True, save_fwd=SaveFwd.DROP, ack2=False), False),
        (Attributes(reliable=False, save_fwd=SaveFwd.MUST, ack2=False), False),
        (Attributes(reliable=False, save_fwd=SaveFwd.DROP, ack2=True), False),
    ],
)
def test_only_unreliable_documents_of_class_1_without_a_receipt_are_best_effort(
    attributes: Attributes, is_best_effort: bool
) -> None:
    assert attributes.is_best_effort is is_best_effort


@pytest.mark.parametrize("name", ["session_key", "alg", "key_id", "origin"])
def test_any_attribute_of_a_seal_marks_the_body_as_a_ciphertext(name: str) -> None:
    clear = Envelope(source=LK.node, target=Address(1, "56001"), lk0=LK, attributes=Attributes())
    assert not clear.is_sealed
    assert replace(clear, **{name: "x"}).is_sealed


def test_a_body_that_was_dropped_keeps_its_size() -> None:
    envelope = Envelope(source=LK.node, target=Address(1, "56001"), lk0=LK, attributes=Attributes())
    assert (Data(envelope, b"four").size, Data(envelope, dropped=5).size) == (4, 5)


@pytest.mark.parametrize(
    ("facts", "body", "is_bare"),
    [
        ({}, b"", True),
        ({}, b"<order/>", False),
        ({"void": True}, b"", False),
        ({"late": True}, b"", False),
        ({"digest": sha256(b"").digest()}, b"", False),  # an empty document
        ({"attributes": Attributes(save_fwd=SaveFwd.STORE)}, b"", False),
    ],
)
def test_a_message_of_class_3_without_its_payload_only_renews_a_signature(
    facts: dict[str, Any], body: bytes, is_bare: bool
) -> None:
    digest = sha256(b"<order/>").digest()
    clear = Envelope(source=LK.node, target=LK.node, lk0=LK, attributes=Attributes(), digest=digest)
    assert Data(replace(clear, **facts), body).is_bare is is_bare
    assert not Data(replace(clear, **facts), body, dropped=5).is_bare


def test_default_containers_are_not_shared() -> None:
    changed, unchanged = (Envelope(source=LK.node, target=LK.node, lk0=LK, attributes=Attributes()) for _ in range(2))
    changed.unknown["@New"] = 1
    assert unchanged.unknown == {}


def test_frames_carry_bodies_without_copying_them() -> None:
    body = memoryview(bytearray(b"body"))
    data = Data(Envelope(source=LK.node, target=LK.node, lk0=LK, attributes=Attributes()), body)
    packet = Packet(LK.node, LK.node, Function.RECEIPTS, Primitive.INDICATION, [], None, body)
    assert data.body is body
    assert packet.body is body
