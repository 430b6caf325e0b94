"""Methods to bytes and back: fixed examples, independent codecs (pamqp, pika), and truncation at every byte."""

from typing import Any

import pamqp.commands
import pika.spec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semq.amqp import methods as m
from semq.amqp.codec import PLANS, decode_method, encode_method
from semq.amqp.errors import AmqpError, FrameError, LocalMisuse, NotSupported, SyntaxFault
from semq.amqp.methods import METHODS, Method
from tests.amqp.helpers import methods, methods_of

GOLDEN: list[tuple[Method, bytes]] = [
    (m.ConnectionOpen("/"), b"\x00\x0a\x00\x28\x01/\x00\x00"),
    (m.ConnectionTune(2047, 131072, 60), b"\x00\x0a\x00\x1e\x07\xff\x00\x02\x00\x00\x00\x3c"),
    (m.ConnectionClose(200, "bye", 0, 0), b"\x00\x0a\x00\x32\x00\xc8\x03bye\x00\x00\x00\x00"),
    (m.ChannelOpen(), b"\x00\x14\x00\x0a\x00"),
    (m.ChannelOpenOk(), b"\x00\x14\x00\x0b\x00\x00\x00\x00"),
    (
        m.QueueDeclare("q", durable=True, no_wait=True, arguments={"x-expires": 1000}),
        b"\x00\x32\x00\x0a\x00\x00\x01q\x12\x00\x00\x00\x0f\x09x-expiresI\x00\x00\x03\xe8",
    ),
    (m.BasicQos(0, 10, True), b"\x00\x3c\x00\x0a\x00\x00\x00\x00\x00\x0a\x01"),
    (m.BasicPublish("ex", "key", True, False), b"\x00\x3c\x00\x28\x00\x00\x02ex\x03key\x01"),
    (m.BasicNack(7, True, False), b"\x00\x3c\x00\x78\x00\x00\x00\x00\x00\x00\x00\x07\x01"),
    (m.ExchangeUnbindOk(), b"\x00\x28\x00\x33"),
]


@pytest.mark.parametrize(("method", "octets"), GOLDEN)
def test_methods_have_the_octets_of_the_specification(method: Method, octets: bytes) -> None:
    assert encode_method(method) == octets
    assert decode_method(octets) == method


@given(methods)
def test_methods_are_decoded_as_they_were_encoded(method: Method) -> None:
    assert decode_method(encode_method(method)) == method


# Names of arguments that differ in pamqp: in all methods, and in single ones.
PAMQP_NAMES = {"no_wait": "nowait"}
PAMQP_NAMES_IN: dict[type[Method], dict[str, str]] = {m.ExchangeDeclare: {"type": "exchange_type"}}
# Values that pamqp and pika accept.
PERMITTED = {
    "table": st.just({}),
    "longstr": st.text("ab", max_size=9).map(str.encode),
    "shortstr": st.text("ab", max_size=9),
    "longlong": st.integers(0, (1 << 63) - 1),  # pamqp treats these numbers as signed
}


@pytest.mark.parametrize("kind", METHODS.values())
@settings(max_examples=15)
@given(data=st.data())
def test_pamqp_reads_written_values(kind: type[Method], data: st.DataObject) -> None:
    method = data.draw(methods_of(kind, PERMITTED))
    octets = encode_method(method)
    pamqp_class: Any = pamqp.commands.INDEX_MAPPING[kind.ids[0] << 16 | kind.ids[1]]
    pamqp_method = pamqp_class.__new__(pamqp_class)  # its constructor warns of a deprecated argument
    pamqp_method.unmarshal(octets[4:])
    names = PAMQP_NAMES | PAMQP_NAMES_IN.get(kind, {})
    for name in kind.__struct_fields__:
        assert plain(getattr(pamqp_method, names.get(name, name))) == plain(getattr(method, name))


PIKA_NAMES = {"no_wait": "nowait", "global_": "global_qos"}


@pytest.mark.parametrize("kind", METHODS.values())
@settings(max_examples=15)
@given(data=st.data())
def test_pika_encodes_methods_to_the_same_octets(kind: type[Method], data: st.DataObject) -> None:
    method = data.draw(methods_of(kind, PERMITTED))
    arguments = {PIKA_NAMES.get(name, name): plain(getattr(method, name)) for name in kind.__struct_fields__}
    pika_method = pika.spec.methods[kind.ids[0] << 16 | kind.ids[1]](**arguments)
    octets = encode_method(method)
    assert b"".join(pika_method.encode()) == octets[4:]
    pika_method.decode(octets[4:])
    assert {name: plain(getattr(pika_method, name)) for name in arguments} == arguments


def plain(value: Any) -> Any:
    """Return a long string as text, as pamqp and pika do; other values unchanged."""
    return value.decode() if isinstance(value, bytes) else value


@given(methods, st.data())
def test_a_method_cut_off_anywhere_is_refused(method: Method, data: st.DataObject) -> None:
    octets = encode_method(method)
    cut = data.draw(st.integers(0, len(octets) - 1))
    with pytest.raises(AmqpError) as caught:
        decode_method(octets[:cut])
    assert caught.value.reply_code in {501, 502}
    assert caught.value.ids == (method.ids if cut >= 4 else (0, 0))


@given(methods, st.binary(min_size=1, max_size=9))
def test_surplus_octets_are_refused(method: Method, surplus: bytes) -> None:
    with pytest.raises(FrameError, match="surplus") as caught:
        decode_method(encode_method(method) + surplus)
    assert caught.value.ids == method.ids


def test_unknown_methods_are_not_implemented() -> None:
    with pytest.raises(NotSupported) as caught:
        decode_method(b"\x00\x32\x00\x63")
    assert caught.value.ids == (50, 99)


def test_an_illegal_value_names_the_method() -> None:
    with pytest.raises(SyntaxFault) as caught:
        decode_method(b"\x00\x0a\x00\x28\x01\xff\x00\x00")
    assert caught.value.ids == (10, 40)


def test_tables_are_bounded_in_depth() -> None:
    octets = encode_method(m.QueueDeclare("q", arguments={"a": {"b": {}}}))
    decode_method(octets, 3)
    with pytest.raises(SyntaxFault, match="deep"):
        decode_method(octets, 2)


@pytest.mark.parametrize(
    "method",
    [
        m.ConnectionTune(1 << 16, 0, 0),
        m.ConnectionTune(-1, 0, 0),
        m.QueueDeclareOk("q", "many"),  # type: ignore[arg-type]
        m.QueueDeclareOk("x" * 256, 0, 0),
        m.ConnectionSecure(None),  # type: ignore[arg-type]
        m.QueueDeclare("q", arguments=None),  # type: ignore[arg-type]
    ],
)
def test_arguments_that_do_not_fit_are_misuse(method: Method) -> None:
    with pytest.raises(LocalMisuse):
        encode_method(method)


def test_bits_of_one_method_share_one_octet() -> None:
    assert max(len(step.names) for plan in PLANS.values() for step in plan if step.kind is None) <= 8
