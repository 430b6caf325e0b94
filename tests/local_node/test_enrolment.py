"""The node's side of enrolment and renewal: continuation after an interruption, and the check of the hub."""

import asyncio
import ssl

import pytest

from local_node.enrolment import HubAddress, enrol, renew
from local_node.errors import RefusedByPeer
from platform_node.node import HubNode
from semq.app import Client
from semq.clock import SystemClock
from semq.config.reach import url_of
from semq.errors import BadInput, Unavailable
from semq.pki.authority import new_request
from semq.pki.errors import KeyRevoked, TokenRefused, WrongName
from semq.pki.keys import key_id
from semq.pki.slots import KeyRing
from semq.pki.tls import server_context
from semq.pki.trust import TrustStore
from semq.service.admin import RequestExchange
from semq.service.credentials.identity import ring_of
from semq.store.postgres.errors import StoreUnavailable
from semq.transport.errors import DialFailed
from semq.umx_t.address import Address
from tests.pki.people import authority, ring, trust
from tests.service.inprocess import InProcess, ask, linked, uplink_of
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
def test_the_address_of_a_hub_is_read(text: str, host: str, port: int) -> None:
    assert HubAddress.of(text) == HubAddress(host, port)


@pytest.mark.parametrize("text", ["", ":5670", "host:99999", "host:x"])
def test_an_invalid_address_of_a_hub_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        HubAddress.of(text)


async def test_an_enrolment_that_was_interrupted_is_continued(inprocess: InProcess) -> None:
    """The node was killed after the hub had signed."""
    hub = await inprocess.secure_hub()
    answer = (await ask(await inprocess.client(hub), "nodes.token", {"node": "10008"}))["result"]
    keys = KeyRing(inprocess.folder / "a", Address(1, "10008"))
    address = HubAddress("127.0.0.1", hub.port)
    await hub.registry.enrol(keys.node, answer["token"], new_request(keys.next_key(), keys.node))
    certificate = await enrol(keys, address, answer["fingerprint"], answer["token"], CLOCK)
    assert keys.identity().certificate == certificate
    assert [issued.serial for issued in await hub.registry.certificates()] == [certificate.serial_text]


async def test_a_token_serves_again_if_the_hub_could_not_check_the_login(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await inprocess.secure_hub()
    operator = await inprocess.client(hub)
    keys, address = KeyRing(inprocess.folder / "a", Address(1, "10008")), HubAddress("127.0.0.1", hub.port)
    answer = (await ask(operator, "nodes.token", {"node": "10008"}))["result"]

    async def fail(*_: object) -> str | None:
        raise StoreUnavailable

    with monkeypatch.context() as away:
        away.setattr(hub.server.authenticator, "authenticate", fail)
        with pytest.raises(Unavailable, match="The hub could not answer"):
            await enrol(keys, address, answer["fingerprint"], answer["token"], CLOCK)
    await enrol(keys, address, answer["fingerprint"], answer["token"], CLOCK)


async def test_a_renewal_that_was_interrupted_is_continued(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    keys, address = ring_of(settings), HubAddress("127.0.0.1", hub.port)
    renewed = await renew(keys, address, hub_trust(hub), CLOCK)
    assert keys.identity().certificate != renewed
    # As if the node was killed before the certificate was made active: the certificate in slot next is tested again.
    assert await renew(keys, address, hub_trust(hub), CLOCK) == renewed
    assert len(await hub.registry.certificates()) == 2
    assert keys.rotate(CLOCK.wall()) == renewed


async def test_a_renewal_gets_no_other_certificate_if_the_hub_stops_during_the_test_of_the_first(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    keys, address = ring_of(settings), HubAddress("127.0.0.1", hub.port)
    renewed = await renew(keys, address, hub_trust(hub), CLOCK)

    def stop(*_: object) -> None:
        for session in list(hub.server.sessions):
            session.force_close("the node stops")

    with monkeypatch.context() as stopping:
        stopping.setattr(RequestExchange, "publish", stop)
        with pytest.raises(Unavailable, match="The hub could not answer"):
            await renew(keys, address, hub_trust(hub), CLOCK)
    assert await renew(keys, address, hub_trust(hub), CLOCK) == renewed
    assert len(await hub.registry.certificates()) == 2


async def test_a_key_that_was_revoked_is_not_certified_again(inprocess: InProcess) -> None:
    """The key is revoked during the enrolment; then the token cannot be used again."""
    hub = await inprocess.secure_hub()
    operator = await inprocess.client(hub)
    keys, address = KeyRing(inprocess.folder / "a", Address(1, "10008")), HubAddress("127.0.0.1", hub.port)
    answer = (await ask(operator, "nodes.token", {"node": "10008"}))["result"]
    revoked = keys.next_key()
    await hub.registry.enrol(keys.node, answer["token"], new_request(revoked, keys.node))
    await hub.registry.revoke("10008", "a mistake")
    with pytest.raises(TokenRefused):
        await enrol(keys, address, answer["fingerprint"], answer["token"], CLOCK)
    new_token = (await ask(operator, "nodes.token", {"node": "10008"}))["result"]
    with pytest.raises(KeyRevoked):
        await hub.registry.enrol(keys.node, new_token["token"], new_request(revoked, keys.node))
    certificate = await enrol(keys, address, new_token["fingerprint"], new_token["token"], CLOCK)
    assert certificate.key_id != key_id(revoked)
    assert keys.identity().certificate == certificate
    assert key_id(revoked) in keys.identity().keys  # documents sealed for the old key can still be opened


async def test_an_enrolment_continues_with_a_new_key_if_the_key_in_slot_next_was_revoked(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    operator = await inprocess.client(hub)
    keys, address = KeyRing(inprocess.folder / "a", Address(1, "10008")), HubAddress("127.0.0.1", hub.port)
    first, second = [(await ask(operator, "nodes.token", {"node": "10008"}))["result"] for _ in range(2)]
    await hub.registry.enrol(keys.node, first["token"], new_request(keys.next_key(), keys.node))
    await hub.registry.revoke("10008", "a mistake")
    certificate = await enrol(keys, address, second["fingerprint"], second["token"], CLOCK)
    valid = [issued.serial for issued in await hub.registry.certificates() if issued.revoked_at is None]
    assert valid == [certificate.serial_text]


async def test_a_renewal_whose_certificate_was_revoked_uses_another_key(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    keys, address = ring_of(settings), HubAddress("127.0.0.1", hub.port)
    first = await renew(keys, address, hub_trust(hub), CLOCK)
    await hub.registry.revoke(first.serial_text, "this one alone")
    second = await renew(keys, address, hub_trust(hub), CLOCK)
    assert second.key_id != first.key_id
    assert keys.rotate(CLOCK.wall()) == second


def hub_trust(hub: HubNode) -> TrustStore:
    assert hub.node_identity is not None
    return hub.node_identity.trust


async def test_a_revoked_node_does_not_renew(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    await hub.registry.revoke("10008", "test")
    with pytest.raises(RefusedByPeer):
        await renew(ring_of(settings), HubAddress("127.0.0.1", hub.port), hub_trust(hub), CLOCK)


async def test_another_institution_is_not_taken_for_the_hub(inprocess: InProcess) -> None:
    """The certificate of the server is valid, but names an institution."""
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    authority = hub.registry.authority
    assert authority is not None
    tls = server_context(trust(authority), ring(inprocess.folder / "thief", authority, "1.56001", at=CLOCK.wall()))
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0, ssl=tls)
    async with server:
        address = HubAddress("127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises(WrongName):
            await renew(ring_of(settings), address, hub_trust(hub), CLOCK)


async def test_a_hub_with_tls_1_2_is_refused_unless_the_node_permits_it(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    assert isinstance(hub.server.config.listener.tls, ssl.SSLContext)
    hub.server.config.listener.tls.minimum_version = ssl.TLSVersion.TLSv1_2
    hub.server.config.listener.tls.maximum_version = ssl.TLSVersion.TLSv1_2
    address = HubAddress("127.0.0.1", hub.port)
    with pytest.raises(DialFailed):
        await renew(ring_of(settings), address, hub_trust(hub), CLOCK)
    tolerant = HubAddress(address.host, address.port, "1.2")
    assert (await renew(ring_of(settings), tolerant, hub_trust(hub), CLOCK)).node == Address(1, "10008")


async def test_applications_connect_by_tls_and_check_the_node(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    settings = settings.model_copy(update={"amqp": settings.amqp.model_copy(update={"tls": True})})
    await inprocess.enrol(settings, hub)
    node = await inprocess.start_node(settings)
    await linked(node)
    async with Client(url_of(settings, node.port), patience_s=60) as client:
        sent = await client.send("10008", b"to myself")
        async with client.receive() as documents:
            async for document in documents:
                assert (document.payload, document.lk0) == (b"to myself", sent.lk0)
                await document.ack()
                break


async def test_a_hub_whose_login_properties_contradict_its_certificate_is_refused(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    properties = hub.server.config.properties
    assert isinstance(properties, dict)
    properties["node"] = "2.other"
    node = await inprocess.start_node(settings)
    await until(lambda: "SEMQ-5104" in uplink_of(node).last_error)
    properties["node"] = "2.hub"
    await linked(node)


async def test_a_running_node_that_is_enrolled_again_continues_with_the_new_certificate(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    a = await inprocess.secure_local("10008", hub)
    await linked(a)
    assert a.node_identity is not None
    before = a.node_identity.certificate
    await hub.registry.revoke("10008", "the key is lost")
    hub.apply_revocations()
    await until(lambda: "ACCESS_REFUSED" in uplink_of(a).last_error)
    await inprocess.enrol(a.settings, hub)  # as another process does, without notifying the node
    await linked(a)
    admin = await inprocess.client(a)
    status = (await ask(admin, "node.status"))["result"]["certificate"]
    assert status["serial"] == ring_of(a.settings).identity().certificate.serial_text != before.serial_text
    checks = {check["check"]: check["verdict"] for check in (await ask(admin, "node.health"))["result"]["checks"]}
    assert (checks["certificate"], checks["link"]) == ("ok", "ok")
    assert before.key_id in a.node_identity.current.keys  # documents sealed for the old key can still be opened


async def test_a_key_ring_that_cannot_be_read_leaves_a_running_node_as_it_is(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    a = await inprocess.secure_local("10008", hub)
    await linked(a)
    assert a.node_identity is not None
    before = a.node_identity.certificate
    await inprocess.enrol(a.settings, hub)
    a.node_identity.ring.certificate_path(a.node_identity.ring.slots().active or "").write_text("no certificate")
    await a._maintain_certificate()
    assert a.node_identity.certificate == before
    assert a.parts.hub.link is not None


async def test_replaced_authorities_are_used_without_a_restart_and_the_link_continues(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    a = await inprocess.secure_local("10008", hub)
    await linked(a)
    other = authority("other")
    for node in (hub, a):
        assert node.node_identity is not None
        path = node.node_identity.ring.trust_path
        path.write_bytes(path.read_bytes() + other.pem)
        node.clockwork.hasten("certificate")
        await until(lambda: node.node_identity is not None and len(node.node_identity.trust.authorities) == 2)  # noqa: B023
    await linked(a)
    health = (await ask(await inprocess.client(a), "node.health", {}))["result"]
    assert {row["check"]: row["verdict"] for row in health["checks"]}["certificate"] == "ok"
