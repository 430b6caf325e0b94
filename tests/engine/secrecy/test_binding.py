"""The data bound by seals and signatures: the canonical form of version 1, and every attribute in it."""

from decimal import Decimal

import pytest
from msgspec.structs import replace

from semq.amqp.wire import encode_fields
from semq.engine.secrecy.binding import authenticated_data, document_content, later_facts, marker_content, place_of
from semq.umx_t.address import Address
from semq.umx_t.app_key import AppKey
from semq.umx_t.attributes import ATTRIBUTES, Attribute, BoundBy, read_row
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.locator import Pos, parse_lk0
from tests.umx_t.samples.altered import BOUND, CARRIED, altered

PLAIN = Envelope(
    source=Address(1, "10008"),
    target=Address(1, "56001"),
    lk0=parse_lk0("1.10008.1.1.ff.99"),
    attributes=Attributes(),
)
FULL = Envelope(
    source=Address(0, "90001"),
    target=Address(1, "56001", "buyer"),
    lk0=parse_lk0("1.10008.1.2.ff.99"),
    sender="erp",
    sid=77,
    floor=70,
    prev=Pos(255, 76),
    att=3,
    digest=bytes(range(32)),
    submitted_at=1_700_000_000_000,
    session_key="2.k.s",
    alg="HPKE-P256+A256GCM",
    key_id="kk",
    origin="1.10008.1.1.fe.98 5 -",
    signature="sig",
    attributes=Attributes(
        ack2=False,
        encrypt=True,
        fixed=True,
        app_key=AppKey("trade", "order", "standard", "S0001"),
        order_key="customer-7",
        content_type="text/xml",
        content_encoding="gzip",
        priority=4,
        expires_at=1_700_000_000_999,
        user_headers=encode_fields(
            {"colour": "red", "n": 1, "b": b"x", "t": {"y": None, "x": [1.5, True]}, "d": Decimal("1.50")}
        ),
    ),
)  # fmt: skip
# Recorded from version 0.9: documents that its nodes sealed and signed must stay verifiable.
RECORDED = {
    ("plain", "bound"): (
        "dc0014af73656d7120646f63756d656e742031c40773657373696f6ea5706c616365a7312e3130303038a7312e3536303031"
        "a000c400cd03e803c3c3c294a0a0a0a0a0a0a00000c0"
    ),
    ("plain", "attested"): (
        "dc0017af73656d7120646f63756d656e742032b6312e31303030382e312e312e66662e3939202d31202da7312e3130303038"
        "a7312e3536303031a000c40003c3c3c294a0a0a0a0a0a0a00000c0c2a0a0a0a0"
    ),
    ("plain", "marked"): (
        "96ad73656d71206d61726b65722031a7312e3130303038a7312e3536303031b6312e31303030382e312e312e66662e393920"
        "2d31202da094a0a0a0a0"
    ),
    ("full", "bound"): (
        "dc0014af73656d7120646f63756d656e742031c40773657373696f6ea5706c616365a7312e3130303038ad312e3536303031"
        "2f6275796572a3657270cf0000018bcfe56800c420000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c"
        "1d1e1fcd03e803c2c3c394a57472616465a56f72646572a87374616e64617264a55330303031aa637573746f6d65722d37a8"
        "746578742f786d6ca4677a697004cf0000018bcfe56be792a17485a16292a178c40178a6636f6c6f757292a173a3726564a1"
        "6492a164a3312e35a16e92a16901a17492a17482a17892a1619292a166b43078312e38303030303030303030303030702b30"
        "92a163c3a17992a163c0"
    ),
    ("full", "attested"): (
        "dc0017af73656d7120646f63756d656e742032ba312e31303030382e312e322e66662e39392037372066662e3736a7312e31"
        "30303038ad312e35363030312f6275796572a3657270cf0000018bcfe56800c420000102030405060708090a0b0c0d0e0f10"
        "1112131415161718191a1b1c1d1e1f03c2c3c394a57472616465a56f72646572a87374616e64617264a55330303031aa6375"
        "73746f6d65722d37a8746578742f786d6ca4677a697004cf0000018bcfe56be792a17485a16292a178c40178a6636f6c6f75"
        "7292a173a3726564a16492a164a3312e35a16e92a16901a17492a17482a17892a1619292a166b43078312e38303030303030"
        "303030303030702b3092a163c3a17992a163c0c3a5322e6b2e73b148504b452d503235362b4132353647434da26b6bb5312e"
        "31303030382e312e312e66652e39382035202d"
    ),
    ("full", "marked"): (
        "96ad73656d71206d61726b65722031a7312e3130303038ad312e35363030312f6275796572ba312e31303030382e312e322e"
        "66662e39392037372066662e3736aa637573746f6d65722d3794a57472616465a56f72646572a87374616e64617264a55330"
        "303031"
    ),
}
ENVELOPES = {"plain": PLAIN, "full": FULL}
FORMS = {
    "bound": lambda envelope: authenticated_data(envelope, "place", b"session", 1000),
    "attested": document_content,
    "marked": marker_content,
}
LATER = read_row("@New | fixed | application | fact | 2 | | flag | int | | | | | | | something new")


@pytest.mark.parametrize(("envelope", "form"), RECORDED)
def test_the_canonical_form_of_version_1_stays(envelope: str, form: str) -> None:
    assert FORMS[form](ENVELOPES[envelope]).hex() == RECORDED[envelope, form]


@pytest.mark.parametrize("row", [row for row in BOUND if row.bound is not BoundBy.MARKER], ids=lambda row: row.name)
@pytest.mark.parametrize("envelope", ENVELOPES.values(), ids=ENVELOPES)
def test_the_signature_binds_every_attribute_that_is_not_exempt(envelope: Envelope, row: Attribute) -> None:
    other = altered(envelope, row)
    assert document_content(other) != document_content(envelope)
    assert (place_of(other) != place_of(envelope)) is (row.bound is BoundBy.PLACE)


@pytest.mark.parametrize("row", [row for row in BOUND if row.bound is BoundBy.FACT], ids=lambda row: row.name)
def test_the_seal_binds_every_fact(row: Attribute) -> None:
    assert FORMS["bound"](altered(FULL, row)) != FORMS["bound"](FULL)


@pytest.mark.parametrize("row", [row for row in CARRIED if row not in BOUND], ids=lambda row: row.name)
def test_attributes_that_change_in_transit_are_not_bound(row: Attribute) -> None:
    assert document_content(altered(FULL, row)) == document_content(FULL)


def test_an_attribute_of_a_later_version_is_bound_where_it_is_used() -> None:
    """Documents that do not use it keep the form of version 1, which older nodes can verify."""
    facts = later_facts([*ATTRIBUTES, LATER])
    assert facts is not None
    assert facts(PLAIN) == ()
    assert facts(replace(PLAIN, attributes=Attributes(fixed=True))) == ({"@New": ["c", True]},)
    assert later_facts([row for row in ATTRIBUTES if row.since == 1]) is None
