"""Hypothesis strategies for the values of floor 0, which the codecs must encode and decode without change."""

from string import ascii_letters, digits
from typing import Any

from hypothesis import strategies as st

from semq.umx_t.address import Address
from semq.umx_t.app_key import NO_KEY, AppKey
from semq.umx_t.attribute_values import MOMENT_MAX
from semq.umx_t.attributes import ATTRIBUTES, BoundBy
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.headers import APPLICATION, TRANSPORT
from semq.umx_t.locator import INT64_MAX, LK0, LK1, Pos
from semq.umx_t.records import AckFlag, Answer, HubFlag, Inquiry, InquiryRole, Presence, Receipt
from semq.umx_t.status import SaveFwd

names = st.text(ascii_letters + digits + "-_", min_size=1, max_size=64)
numbers = st.integers(0, INT64_MAX)
nine_digit_numbers = st.integers(0, 999_999_999)
unprintable: Any = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")
printable = st.text(st.characters(exclude_categories=unprintable), max_size=40)
texts = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=40)
digests = st.binary(min_size=32, max_size=32)

nodes = st.builds(Address, st.integers(0, 999), names, st.just(""))
addresses = st.one_of(nodes, st.builds(Address, st.integers(0, 999), names, names))
lk0s = st.builds(LK0, st.integers(0, 999), names, nine_digit_numbers, nine_digit_numbers, numbers, numbers)
lk1s = st.builds(LK1, nine_digit_numbers, nine_digit_numbers, numbers)
positions = st.builds(Pos, numbers, numbers)
parts = printable.map(lambda text: text.replace("/", "-"))
app_keys = st.one_of(st.just(NO_KEY), st.builds(AppKey, parts, parts, parts, printable))
user_headers = st.binary(max_size=20)  # opaque here: encoded fields
unknown_headers = names.map(lambda name: f"@{name}").filter(lambda name: name not in (*APPLICATION, *TRANSPORT))
# Kind of an attribute (``attributes.Attribute``) | its values
OF_KIND: dict[str, st.SearchStrategy[Any]] = {
    "flag": st.booleans(),
    "save_fwd": st.sampled_from(SaveFwd),
    "number": numbers,
    "moment": st.integers(0, MOMENT_MAX),
    "attempt": st.integers(0, 2**31 - 1),
    "app_key": app_keys,
    "text": printable,
    "repeated": printable,
    "digest": st.just(b"") | digests,
    "pos": st.none() | positions,
    "lk1": st.none() | lk1s,
}
# Field of an attribute that is not a header, or has more values than its kind | its values
OF_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "source": nodes,
    "target": addresses,
    "lk0": lk0s,
    "sid": st.integers(-1, INT64_MAX),
    "content_type": names | st.just(""),
    "content_encoding": names | st.just(""),
    "priority": st.integers(0, 255),
    "user_headers": user_headers,
    "unknown": st.dictionaries(unknown_headers, st.integers() | texts, max_size=2),
}
CARRIED = [row for row in ATTRIBUTES if row.bound is not BoundBy.STAYS]


def _by_field(*, of_document: bool) -> dict[str, st.SearchStrategy[Any]]:
    """Return strategies for all attributes that nodes send each other, by field of Attributes or of Envelope."""
    rows = [row for row in CARRIED if row.is_of_document is of_document]
    return {row.field: OF_FIELD[row.field] if row.field in OF_FIELD else OF_KIND[row.kind] for row in rows}


attributes = st.builds(Attributes, **_by_field(of_document=True))


def _has_position_if_needed(envelope: Envelope) -> bool:
    return envelope.sid >= 0 or not envelope.is_class3


envelopes = st.builds(Envelope, attributes=attributes, **_by_field(of_document=False)).filter(_has_position_if_needed)

hexes = numbers.map(lambda number: f"{number:x}")
reasons = st.none() | st.tuples(texts, texts)
lk1_tuples = st.none() | st.tuples(nine_digit_numbers, nine_digit_numbers, numbers)
receipts = st.builds(
    Receipt,
    src_semq_id=nine_digit_numbers,
    src_ref_id=numbers,
    dest_ref_id=numbers,
    ack_flag=st.none() | st.sampled_from(AckFlag),
    flag=st.none() | st.sampled_from(HubFlag),
    app_key=st.none() | st.tuples(texts, texts, texts, texts),
    ident=lk0s.map(str),
    status=st.none() | st.sampled_from(Answer),
    reason=reasons,
    digest=digests.map(bytes.hex) | st.just(""),
    at=numbers,
    floors=st.none() | st.dictionaries(hexes, st.tuples(numbers, st.none() | numbers), max_size=3),
    att=numbers,
    lk1=lk1_tuples,
    void=st.booleans(),
)
inquiries = st.builds(
    Inquiry,
    semq_db_id=nine_digit_numbers,
    ref_id=numbers,
    flag=st.sampled_from([1, 2]),
    role=st.none() | st.sampled_from(InquiryRole),
    ident=lk0s.map(str),
    sid=st.integers(-1, INT64_MAX),
    floor=numbers,
    nonce=numbers,
    lk1=lk1_tuples,
    status=st.none() | st.sampled_from(Answer),
    prev=positions.map(str) | st.just(""),
    result=st.none() | st.sampled_from([0, 1]),
    answer=st.none() | st.sampled_from(Answer),
    void=st.booleans(),
    reason=reasons,
    digest=digests.map(bytes.hex) | st.just(""),
)
presences = st.builds(
    Presence, node=nodes.map(str), online=st.booleans(), allowed=st.booleans(), complete=st.booleans()
)

# Values of an AMQP field table, for hostile headers.
table_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64)
    | st.floats()
    | st.text(max_size=30)
    | st.binary(max_size=30)
    | st.sampled_from(["0", "1", "3", b"1", b"2", 1, 2, 3]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
