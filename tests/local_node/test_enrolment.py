"""The node's side of enrolment and renewal: continuation after an interruption, and the check of the hub."""

import asyncio
import ssl

import pytest

from local_node.enrolment import HubAddress, enrol, renew
from local_node.errors import RefusedByHub
from platform_node.node import HubNode
from semq.app import Client
from semq.clock import SystemClock
from semq.config.reach import url_of
from semq.errors import BadInput
from semq.pki.authority import new_request
from semq.pki.errors import KeyRevoked, WrongName
from semq.pki.keys import key_id
from semq.pki.slots import KeyRing
from semq.pki.tls import server_context
from semq.pki.trust import TrustStore
from semq.service.credentials.identity import ring_of
from semq.transport.errors import DialFailed
from semq.umx_t.address import Address
from tests.pki.people import ring, trust
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until

CLOCK = SystemClock()


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("hub.example.org:5670", "hub.example.org", 5670),
        ("amqps://hub.example.org", "hub.example.org", 5671),
        ("[::1]:5670", "::1", 5670),
    ],
)
def test_the_address_of_a_hub(text: str, host: str, port: int) -> None:
    assert HubAddress.of(text) == HubAddress(host, port)


@pytest.mark.parametrize("text", ["", ":5670", "host:99999", "host:x"])
def test_an_invalid_address_of_a_hub_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        HubAddress.of(text)


async def test_an_enrolment_that_was_interrupted_goes_on(inprocess: InProcess) -> None:
    """The hub has signed, the node was killed before it got the answer: repeating the command succeeds."""
    hub = await inprocess.secure_hub()
    answer = (await ask(await inprocess.client(hub), "nodes.token", {"node": "10008"}))["result"]
    keys = KeyRing(inprocess.folder / "a", Address(1, "10008"))
    where = HubAddress("127.0.0.1", hub.port)
    await hub.registry.enrol(keys.node, answer["token"], new_request(keys.next_key(), keys.node))
    made = await enrol(keys, where, answer["fingerprint"], answer["token"], CLOCK)
    assert keys.identity().certificate == made
    assert [one.serial for one in await hub.registry.certificates()] == [made.serial_text]


async def test_a_renewal_that_was_interrupted_goes_on(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    keys, where = ring_of(settings), HubAddress("127.0.0.1", hub.port)
    made = await renew(keys, where, hub_trust(hub), CLOCK)
    assert keys.identity().certificate != made
    # Killed before the certificate was made active: the one in slot next is tried again, and no new one is signed.
    assert await renew(keys, where, hub_trust(hub), CLOCK) == made
    assert len(await hub.registry.certificates()) == 2
    assert keys.rotate(CLOCK.wall()) == made


async def test_a_key_that_was_revoked_is_not_certified_again(inprocess: InProcess) -> None:
    """Revoked during the enrolment: the token is used up, and the next one is for another key."""
    hub = await inprocess.secure_hub()
    operator = await inprocess.client(hub)
    keys, where = KeyRing(inprocess.folder / "a", Address(1, "10008")), HubAddress("127.0.0.1", hub.port)
    answer = (await ask(operator, "nodes.token", {"node": "10008"}))["result"]
    before = keys.next_key()
    await hub.registry.enrol(keys.node, answer["token"], new_request(before, keys.node))
    await hub.registry.revoke("10008", "a mistake")
    with pytest.raises(RefusedByHub, match="SEMQ-5121"):
        await enrol(keys, where, answer["fingerprint"], answer["token"], CLOCK)
    again = (await ask(operator, "nodes.token", {"node": "10008"}))["result"]
    with pytest.raises(KeyRevoked):
        await hub.registry.enrol(keys.node, again["token"], new_request(before, keys.node))
    made = await enrol(keys, where, again["fingerprint"], again["token"], CLOCK)
    assert made.key_id != key_id(before)
    assert keys.identity().certificate == made
    assert key_id(before) in keys.identity().keys  # it can still open documents sealed for the old key


async def test_a_key_that_was_revoked_before_its_new_token_costs_no_token(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    operator = await inprocess.client(hub)
    keys, where = KeyRing(inprocess.folder / "a", Address(1, "10008")), HubAddress("127.0.0.1", hub.port)
    first, second = [(await ask(operator, "nodes.token", {"node": "10008"}))["result"] for _ in range(2)]
    await hub.registry.enrol(keys.node, first["token"], new_request(keys.next_key(), keys.node))
    await hub.registry.revoke("10008", "a mistake")
    made = await enrol(keys, where, second["fingerprint"], second["token"], CLOCK)
    assert [one.serial for one in await hub.registry.certificates() if one.revoked_at is None] == [made.serial_text]


async def test_a_renewal_whose_certificate_was_revoked_goes_on_with_another_key(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    keys, where = ring_of(settings), HubAddress("127.0.0.1", hub.port)
    waiting = await renew(keys, where, hub_trust(hub), CLOCK)
    await hub.registry.revoke(waiting.serial_text, "this one alone")
    made = await renew(keys, where, hub_trust(hub), CLOCK)
    assert made.key_id != waiting.key_id
    assert keys.rotate(CLOCK.wall()) == made


def hub_trust(hub: HubNode) -> TrustStore:
    assert hub.who is not None
    return hub.who.trust


async def test_a_revoked_node_does_not_renew(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    await hub.registry.revoke("10008", "test")
    with pytest.raises(RefusedByHub):
        await renew(ring_of(settings), HubAddress("127.0.0.1", hub.port), hub_trust(hub), CLOCK)


async def test_another_institution_is_not_taken_for_the_hub(inprocess: InProcess) -> None:
    """Its certificate is valid, under the same authority, but it is not a hub's."""
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    authority = hub.registry.authority
    assert authority is not None
    tls = server_context(trust(authority), ring(inprocess.folder / "thief", authority, "1.56001", at=CLOCK.wall()))
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0, ssl=tls)
    async with server:
        where = HubAddress("127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises(WrongName):
            await renew(ring_of(settings), where, hub_trust(hub), CLOCK)


async def test_a_downgraded_hub_is_refused(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    assert hub.server.config.listener.tls is not None
    hub.server.config.listener.tls.minimum_version = ssl.TLSVersion.TLSv1_2
    hub.server.config.listener.tls.maximum_version = ssl.TLSVersion.TLSv1_2
    where = HubAddress("127.0.0.1", hub.port)
    with pytest.raises(DialFailed):
        await renew(ring_of(settings), where, hub_trust(hub), CLOCK)
    tolerant = HubAddress(where.host, where.port, "1.2")
    assert (await renew(ring_of(settings), tolerant, hub_trust(hub), CLOCK)).node == Address(1, "10008")


async def test_applications_connect_by_tls_and_check_the_node(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    settings = settings.model_copy(update={"amqp": settings.amqp.model_copy(update={"tls": True})})
    await inprocess.enrol(settings, hub)
    node = await inprocess.started(settings)
    await linked(node)
    async with Client(url_of(settings, node.port), patience_s=60) as client:
        sent = await client.send("10008", b"to myself")
        async with client.receive() as documents:
            async for document in documents:
                assert (document.payload, document.lk0) == (b"to myself", sent.lk0)
                await document.ack()
                break


async def test_a_hub_that_calls_itself_otherwise_than_its_certificate_is_refused(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    result = hub.server.config.properties
    assert isinstance(result, dict)
    result["node_id"] = "other"
    node = await inprocess.started(settings)
    await until(lambda: "SEMQ-5104" in node.uplink.last_error)
    result["node_id"] = "hub"
    await linked(node)


async def test_a_running_node_that_is_enrolled_again_continues_with_the_new_certificate(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    a = await inprocess.secure_local("10008", hub)
    await linked(a)
    assert a.who is not None
    before = a.who.certificate
    await hub.registry.revoke("10008", "the key is lost")
    hub.revoked()
    await until(lambda: "ACCESS_REFUSED" in a.uplink.last_error)
    await inprocess.enrol(a.settings, hub)  # as another process does, without notifying the node
    await linked(a)
    admin = await inprocess.client(a)
    status = (await ask(admin, "node.status"))["result"]["certificate"]
    assert status["serial"] == ring_of(a.settings).identity().certificate.serial_text != before.serial_text
    checks = {one["check"]: one["verdict"] for one in (await ask(admin, "node.health"))["result"]["checks"]}
    assert (checks["certificate"], checks["link"]) == ("ok", "ok")
    assert before.key_id in a.who.current.keys  # it can still open documents sealed for the old key


async def test_a_key_ring_that_cannot_be_read_leaves_a_running_node_as_it_is(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    a = await inprocess.secure_local("10008", hub)
    await linked(a)
    assert a.who is not None
    before = a.who.certificate
    await inprocess.enrol(a.settings, hub)
    a.who.ring.certificate_path(a.who.ring.slots().active or "").write_text("no certificate")
    await a._maintain_certificate()
    assert a.who.certificate == before
    assert a.uplink.link is not None
