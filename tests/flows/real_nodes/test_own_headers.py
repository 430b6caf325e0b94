"""Headers and properties of an application arrive with the letters and bytes that were sent, whether signed, sealed, in
pieces or stored on the way; and each interface carries a number or refuses it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import PreconditionFailed
from semq.amqp.events import Got
from semq.amqp.wire import Timestamp, decode_fields, encode_fields, long_string
from semq.app import Client, RefusedByNode
from semq.transport.client import ClientLink
from semq.transport.client_channel import ClientChannel
from semq.web.api.documents import FORM
from tests.flows.real_nodes.test_group_doors import GroupNodes
from tests.service.inprocess import InProcess, ask, linked
from tests.transport.publishing import publish_and_wait
from tests.waiting import until
from tests.web.running import serving

SIZES = {"bBt": 1, "su": 2, "Iif": 4, "lLdT": 8, "D": 5, "V": 0}
NUMBERS = {ord(letter): size for letters, size in SIZES.items() for letter in letters}


def value_of(letter: int) -> st.SearchStrategy[bytes]:
    """Return encoded values of a type: any bits that its letter permits."""
    size = NUMBERS[letter]
    return st.binary(min_size=size, max_size=size).map(lambda bits: bytes([letter]) + bits)


names = st.text(st.characters(exclude_characters="\0@", codec="utf-8"), min_size=1, max_size=12)
letters = st.sampled_from([b"S", b"x"])
strings = st.builds(lambda letter, text: letter + long_string(text), letters, st.binary(max_size=9))
scalars = st.one_of(*map(value_of, NUMBERS), strings)


def fields_of(values: Mapping[str, bytes]) -> bytes:
    return b"".join(bytes([len(name.encode())]) + name.encode() + value for name, value in values.items())


values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: b"A" + long_string(b"".join(parts)))
        | st.dictionaries(names, inner, max_size=3).map(lambda parts: b"F" + long_string(fields_of(parts)))
    ),
    max_leaves=5,
)
# One field of each type, so that each example has all of them, and others.
every_letter = st.tuples(*map(value_of, NUMBERS)).map(
    lambda each: {f"letter {number}": value for number, value in enumerate(each)}
)
fields = st.builds(lambda one, more: fields_of(more | one), every_letter, st.dictionaries(names, values, max_size=3))


class SigningNodes(NamedTuple):
    """Two nodes with certificates, and a channel of an application at each."""

    hub: HubNode
    a: LocalNode
    b: LocalNode
    link: ClientLink
    sender: ClientChannel
    receiver: ClientChannel


async def confirming(link: ClientLink) -> ClientChannel:
    channel = await link.open_channel()
    await channel.confirm_select()
    return channel


def url_of(node: LocalNode) -> str:
    return f"amqp://guest:guest@127.0.0.1:{node.port}"


@pytest.fixture(scope="module")
async def nodes(shared_inprocess: InProcess) -> SigningNodes:
    hub = await shared_inprocess.secure_hub()
    more = "pieces_from_bytes = 20000\n"
    a, b = [await shared_inprocess.secure_local(name, hub, more) for name in ("10008", "56001")]
    await linked(a, b)
    await until(lambda: a.engine.partners.online.get("1.56001"))
    link, other = [await shared_inprocess.client(node) for node in (a, b)]
    return SigningNodes(hub, a, b, link, await confirming(link), await confirming(other))


async def published(channel: ClientChannel, own: bytes, body: bytes = b"x", **attributes: Any) -> None:
    to = attributes.pop("to", "56001")
    table = long_string(encode_fields({f"@{name}": value for name, value in attributes.items()}) + own)
    assert await publish_and_wait(channel, "semq", to, ContentHeader.build(len(body), Properties(headers=table)), body)


async def received(channel: ClientChannel, queue: str = "semq.inbox") -> ContentHeader:
    got: list[Got] = []

    async def is_there() -> bool:
        if (message := await channel.get(queue, no_ack=True)) is not None:
            got.append(message)
        return bool(got)

    while not await is_there():
        pass
    return got[0].header


async def own_headers(channel: ClientChannel) -> bytes:
    return (await received(channel)).split_headers()[1]


WAYS: dict[str, tuple[dict[str, int], bytes]] = {
    "signed": ({}, b"x"),
    "sealed": ({"Encrypt": 1}, b"x"),
    "class 1": ({"SaveFwd": 1}, b"x"),
    "in pieces": ({}, b"x" * 30_000),
}


@pytest.mark.parametrize("way", WAYS)
@given(own=fields)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
async def test_letters_and_bytes_of_headers_arrive_unchanged(nodes: SigningNodes, way: str, own: bytes) -> None:
    attributes, body = WAYS[way]
    await published(nodes.sender, own, body, **attributes)
    assert await own_headers(nodes.receiver) == own


EVERY = fields_of(
    {
        "t": b"t\x07", "b": b"b\x80", "B": b"B\xff", "s": b"s\xff\xfe", "u": b"u\xff\xfe", "I": b"I" + bytes(4),
        "i": b"i\xff" + bytes(3), "l": b"l" + bytes(7) + b"\x05", "L": b"L\xff\xff\xff\xff\x4d\x2f\xa2\x00",
        "f": b"f\x3d\xcc\xcc\xcd", "d": b"d\x7f\xf8" + bytes(5) + b"\x01", "T": b"T" + bytes(7) + b"\x05",
        "D": b"D\x02\x00\x00\x04\xe2", "V": b"V", "S": b"S\x00\x00\x00\x02\xd6\xd0", "x": b"x\x00\x00\x00\x01\xff",
        "A": b"A\x00\x00\x00\x03b\x01V", "F": b"F\x00\x00\x00\x03\x01aV",
    }
)  # fmt: skip


async def test_headers_of_a_copy_that_the_hub_stored_arrive_unchanged(inprocess: InProcess) -> None:
    """The receiver starts for the first time when sender and hub have stored the document, and it was sent again."""
    hub = await inprocess.secure_hub()
    sender = await inprocess.secure_local("10008", hub)
    await linked(sender)
    link = await inprocess.client(sender)
    await published(await confirming(link), EVERY)
    [row] = (await ask(link, "msg.list"))["result"]["rows"]
    assert (await ask(link, "msg.resend", {"id": row["lk0"]}))["ok"]
    receiver = await inprocess.secure_local("56001", hub)
    assert await own_headers(await confirming(await inprocess.client(receiver))) == EVERY


async def test_headers_reach_each_member_of_a_group_unchanged(inprocess: InProcess) -> None:
    scene = await GroupNodes.start(inprocess, secure=True)
    await published(await confirming(await inprocess.client(scene.a)), EVERY, to="3.partners")
    for node in (scene.b, scene.c):
        assert await own_headers(await confirming(await inprocess.client(node))) == EVERY


async def test_all_properties_arrive_as_themselves_or_as_headers(nodes: SigningNodes) -> None:
    header = ContentHeader.build(
        1,
        Properties(
            content_type="text/xml", content_encoding="gzip", headers=long_string(EVERY), delivery_mode=1, priority=4,
            correlation_id=b"\xd6\xd0", expiration="60000", message_id="M-1", timestamp=1_764_325_800, type="order",
            app_id="erp", cluster_id="c",
        ),
    )  # fmt: skip
    assert await publish_and_wait(nodes.sender, "semq", "56001", header, b"x")
    arrived = await received(nodes.receiver)
    _, own = arrived.split_headers()
    assert own.startswith(EVERY)
    assert decode_fields(own[len(EVERY) :]) == {
        "x-correlation-id": b"\xd6\xd0", "x-message-id": "M-1", "x-timestamp": 1_764_325_800, "x-type": "order",
        "x-app-id": "erp", "x-cluster-id": "c",
    }  # fmt: skip
    spans = arrived.spans or arrived.locate()
    start, stop = spans["correlation_id"]
    assert arrived.raw[start:stop] == b"\x02\xd6\xd0"
    assert (arrived.type, arrived.priority, arrived.delivery_mode) == ("order", 4, 2)
    assert (arrived.content_type, arrived.content_encoding, arrived.app_id) == ("text/xml", "gzip", "1.10008")


async def test_a_received_document_is_passed_on_with_its_own_headers_only(nodes: SigningNodes) -> None:
    await published(nodes.sender, EVERY, AppKey="a/b/c/d")
    arrived = await received(nodes.receiver)
    with pytest.raises(PreconditionFailed, match="@LK0 is set by nodes"):
        await publish_and_wait(await confirming(nodes.link), "semq", "56001", arrived, b"x")
    _, own = arrived.split_headers()
    await published(nodes.sender, own, Token=f"of {arrived.message_id}")
    assert await own_headers(nodes.receiver) == EVERY


# ------------------------------------------------------------------------------------------------ numbers and dates


LARGEST: dict[str, Any] = {"n": 2**63 - 1, "least": -(2**63), "deep": [{"n": 2**40}]}


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
async def test_an_integer_that_amqp_cannot_carry_is_refused_by_each_interface(nodes: SigningNodes, number: int) -> None:
    too_large = {"deep": [{"n": number}]}
    answer = await ask(nodes.link, "msg.submit", {"target": "56001", "headers": too_large})
    assert answer["error"]["code"] == "SEMQ-1102"
    async with Client(url_of(nodes.a)) as client:
        with pytest.raises(RefusedByNode, match="2\\^63"):
            await client.send("56001", b"x", headers=too_large)
    with psycopg.connect(nodes.a.store.url) as connection, pytest.raises(psycopg.DataError) as refused:
        connection.execute("SELECT semq_send('56001', 'x', headers => %s)", (Jsonb(too_large),))
    assert refused.value.sqlstate == "22023"
    assert "SEMQ-1102" in str(refused.value)
    async with serving(nodes.a) as site:
        program = await site.program("submit")
        form = {"target": "56001", "body_base64": "", "headers": too_large}
        response = await program.post("/documents", json=form, headers={"content-type": FORM})
    assert (response.status_code, "2^63" in response.text) == (400, True)


async def test_the_largest_integers_arrive_through_each_interface(nodes: SigningNodes) -> None:
    async with Client(url_of(nodes.a)) as client:
        await client.send("56001", b"x", headers=LARGEST)
        assert decode_fields(await own_headers(nodes.receiver)) == LARGEST
    with psycopg.connect(nodes.a.store.url) as connection:
        connection.execute("SELECT semq_send('56001', 'x', headers => %s)", (Jsonb(LARGEST),))
    assert decode_fields(await own_headers(nodes.receiver)) == LARGEST
    async with serving(nodes.a) as site:
        program = await site.program("submit")
        form = {"target": "56001", "body_base64": "", "headers": LARGEST}
        response = await program.post("/documents", json=form, headers={"content-type": FORM})
        assert response.status_code == 201
    assert decode_fields(await own_headers(nodes.receiver)) == LARGEST
    await published(nodes.sender, encode_fields(LARGEST))
    with psycopg.connect(nodes.b.store.url) as connection:
        await until(lambda: connection.execute("SELECT count(*) FROM semq_inbox").fetchone() == (1,))
        assert connection.execute("SELECT headers FROM semq_receive()").fetchall() == [(LARGEST,)]
    assert await own_headers(nodes.receiver) == encode_fields(LARGEST)


@pytest.mark.parametrize("attribute", ["NotBefore", "ExpiresAt"])
async def test_a_time_in_seconds_is_refused_by_each_interface(nodes: SigningNodes, attribute: str) -> None:
    seconds = 1_900_000_000  # in 2030
    by_name: dict[str, Any] = {attribute: seconds}
    by_argument: dict[str, Any] = {"not_before" if attribute == "NotBefore" else "expires_at": seconds}
    with pytest.raises(PreconditionFailed, match="milliseconds"):
        await published(await confirming(nodes.link), b"", **by_name)
    answer = await ask(nodes.link, "msg.submit", {"target": "56001", **by_argument})
    assert "milliseconds" in answer["error"]["text"]
    async with Client(url_of(nodes.a)) as client:
        with pytest.raises(RefusedByNode, match="milliseconds"):
            await client.send("56001", b"x", **by_argument)
    async with serving(nodes.a) as site:
        program = await site.program("submit")
        name = attribute.replace("tB", "t-B").replace("sA", "s-A")
        response = await program.post("/documents?target=56001", content=b"x", headers={f"SEMQ-{name}": str(seconds)})
    assert (response.status_code, "milliseconds" in response.text) == (409, True)


async def test_a_timestamp_of_amqp_is_in_seconds(nodes: SigningNodes) -> None:
    at = 4_000_000_000  # in 2096
    await published(nodes.sender, b"", NotBefore=Timestamp(at), Token="of-timestamp")
    rows = (await ask(nodes.link, "msg.list", {"state": "scheduled"}))["result"]["rows"]
    (shown,) = [(await ask(nodes.link, "msg.show", {"id": row["lk0"]}))["result"] for row in rows]
    assert shown["not_before"] == at * 1000
    await published(nodes.sender, b"", ExpiresAt=Timestamp(at))
    await received(nodes.receiver)


@pytest.mark.parametrize("days", [50, 60, 3650])
async def test_a_document_may_be_valid_for_years(nodes: SigningNodes, days: int) -> None:
    lifetime_ms = timedelta(days=days) // timedelta(milliseconds=1)
    header = ContentHeader.build(1, Properties(expiration=str(lifetime_ms)))
    assert await publish_and_wait(nodes.sender, "semq", "56001", header, b"x")
    assert (await received(nodes.receiver)).expiration is None
