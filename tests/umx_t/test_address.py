"""Addresses: encoding and decoding, optional parts, and invalid text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.umx_t.address import Address, NodeType, is_hub, parse_address
from semq.umx_t.errors import BadAddress
from tests.umx_t.samples.strategies import addresses


@given(addresses)
def test_every_address_is_read_back_from_its_text(address: Address) -> None:
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("56001", Address(NodeType.LOCAL, "56001")),
        ("1.56001", Address(NodeType.LOCAL, "56001")),
        ("2.1", Address(NodeType.PLATFORM, "1")),
        ("56001/buyer", Address(NodeType.LOCAL, "56001", "buyer")),
        ("7.a-b_C/x", Address(7, "a-b_C", "x")),
    ],
)
def test_an_address_is_read_with_and_without_its_optional_parts(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "1.",
        "/",
        "a/",
        "/a",
        "a/b/c",
        "1.2.3",
        "x.1",
        "1000.a",
        "ä",
        "a b",
        "a\n",
        "a\x00",
        "a" * 65,
        "１.a",
        "-1.a",
    ],
)
def test_invalid_addresses_are_refused(text: str) -> None:
    with pytest.raises(BadAddress) as refusal:
        parse_address(text)
    assert refusal.value.facts["address"] == text[:80]


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        address = parse_address(text)
    except BadAddress:
        return
    assert parse_address(str(address)) == address


def test_the_node_of_a_user_is_the_address_without_the_user() -> None:
    assert Address(1, "a", "buyer").node == Address(1, "a")
    assert Address(1, "a").node == Address(1, "a")


def test_the_type_of_an_address_distinguishes_hubs_from_institutions() -> None:
    assert [kind for kind in NodeType if is_hub(Address(kind, "x"))] == [NodeType.PLATFORM]
