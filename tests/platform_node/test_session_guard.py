"""Revocation and renewal of certificates on a running network."""

import asyncio
from datetime import timedelta

import psycopg
import pytest
import structlog

from platform_node.logins import ENROLL
from platform_node.node import HubNode
from semq.amqp.errors import AccessRefused
from semq.clock import SystemClock
from semq.pki.certificate import NodeCertificate
from semq.pki.errors import KeyRefused, WrongAuthority, WrongName
from semq.pki.slots import SLOTS_FILE
from semq.service.links.rights import UMX
from semq.service.links.sessions import NodeQueue
from semq.service.monitoring.health import FAILING, checks
from semq.store import identities
from semq.store.postgres.migration import engine_of
from semq.store.rows import Event
from semq.transport.client import ClientLink
from semq.umx_t.address import Address
from tests.clocks import ShiftedClock
from tests.pki.people import authority, issued
from tests.service.inprocess import InProcess, ask, linked, uplink_of
from tests.waiting import until


async def submit(link: ClientLink, target: str, count: int) -> list[str]:
    documents = [{"target": target, "body_base64": "eA==", "token": f"{target}-{n}"} for n in range(count)]
    return [(await ask(link, "msg.submit", document))["result"]["lk0"] for document in documents]


async def test_a_revoked_node_is_disconnected_and_refused(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    a, b = await inprocess.secure_local("10008", hub), await inprocess.secure_local("56001", hub)
    await linked(a, b)
    app = await inprocess.client(a)
    await submit(app, "56001", 3)
    assert b.node_identity is not None
    # Revoke by SQL, without a NOTIFY.
    with psycopg.connect(hub.store.url) as connection:
        connection.execute("UPDATE node_certificate SET revoked_at = now() WHERE node = '1.56001'")
    hub.clockwork.hasten("revocation")
    await until(lambda: "1.56001" not in hub.parts.links.links)
    await until(lambda: "ACCESS_REFUSED" in uplink_of(b).last_error)
    assert b.certificate_status().state == "revoked"  # on the pages and commands of the node itself
    failing = {check.name: check.detail for check in checks(await b.status(), 14.0) if check.verdict == FAILING}
    assert {"link", "certificate"} <= failing.keys()
    assert "enrol the node again" in failing["certificate"]
    # Documents for the node wait at the hub until it has enrolled again.
    sent = await submit(app, "56001", 5)
    await until(lambda: hub.engine.custody.rows_by_target.get("1.56001", 0) >= 2)
    await b.stop()
    await inprocess.enrol(b.settings, hub)
    await linked(await inprocess.start_node(b.settings))

    async def all_delivered() -> bool:
        rows = (await ask(app, "msg.list"))["result"]["rows"]
        return not any(row["lk0"] in sent and row["outcome"] is None for row in rows)

    await until(all_delivered)
    assert "1.10008" in hub.parts.links.links


async def test_an_institution_that_the_definitions_no_longer_name_keeps_no_session(inprocess: InProcess) -> None:
    """Neither its link, nor a second session that would take its queues afterwards, nor sessions in ``enroll``."""
    hub = await inprocess.secure_hub()
    admin = await inprocess.client(hub)
    await ask(admin, "definitions.import", {"document": '[nodes."77001"]\n'})
    settings = inprocess.secure_settings("77001", hub)
    await inprocess.enrol(settings, hub)
    removed, other = await inprocess.start_node(settings), await inprocess.secure_local("56001", hub)
    await linked(removed, other)
    assert removed.node_identity is not None
    login = {"user": "1.77001", "tls": removed.node_identity.client_tls(), "client_properties": removed.identity()}
    for virtual_host in (UMX, ENROLL):
        await inprocess.client(hub, virtual_host=virtual_host, password=None, **login)
    token = (await ask(admin, "nodes.token", {"node": "77001"}))["result"]["token"]
    await inprocess.client(hub, virtual_host=ENROLL, user="enroll/1.77001", password=token)
    assert open_sessions(hub, "77001") == [
        ("1.77001", ENROLL), ("1.77001", UMX), ("1.77001", UMX), ("enroll/1.77001", ENROLL),
    ]  # fmt: skip
    session, queue = hub.parts.links.links["1.77001"].session, hub.server.vhosts[UMX].queues["node.1.77001"]
    assert isinstance(queue, NodeQueue)
    answer = await ask(admin, "definitions.import", {"document": "# empty\n"})
    assert answer["result"]["changes"] == ["- node 77001"]
    assert open_sessions(hub, "77001") == []
    assert ("1.56001", UMX) in open_sessions(hub, "56001")
    assert isinstance(queue.may_attach(session, False), AccessRefused)
    await until(lambda: "ACCESS_REFUSED" in uplink_of(removed).last_error)


def open_sessions(hub: HubNode, node_id: str) -> list[tuple[str, str]]:
    """Return users and virtual hosts of the sessions of an institution."""
    sessions = [each for each in hub.server.sessions if each.is_open and each.user.endswith(node_id)]
    return sorted((session.user, session.vhost.name) for session in sessions)


async def test_renewals_under_load_lose_no_document(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    a, b = await inprocess.secure_local("10008", hub), await inprocess.secure_local("56001", hub)
    await linked(a, b)
    app = await inprocess.client(a)
    assert a.node_identity is not None
    assert b.node_identity is not None
    assert hub.node_identity is not None
    before = {node.node_identity.certificate.serial for node in (a, b, hub) if node.node_identity is not None}
    sending = asyncio.create_task(submit(app, "56001", 24))
    for node in (a, b):
        assert node.parts.renewing is not None
        await node.parts.renewing.renew_now()
    hub.renew_own()
    sent = await sending
    await linked(a, b)
    assert not before & {
        a.node_identity.certificate.serial,
        b.node_identity.certificate.serial,
        hub.node_identity.certificate.serial,
    }

    async def all_delivered() -> bool:
        counts = (await ask(app, "queue.census", {"fresh": True}))["result"]
        return not counts["sent"]

    await until(all_delivered)
    with psycopg.connect(b.store.url) as connection:
        lines_and_messages = connection.execute(
            "SELECT count(*), count(DISTINCT lk0) FROM semq_ledger WHERE event = %s", [int(Event.RECEIVED)]
        ).fetchone()
    assert lines_and_messages == (len(sent), len(sent)) == (24, 24)
    for link in (hub.parts.links.links["1.10008"], hub.parts.links.links["1.56001"]):
        assert link.session.peer.certificate in (a.node_identity.certificate.der, b.node_identity.certificate.der)


async def test_a_certificate_is_renewed_by_the_job_of_its_node(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub("[tls]\ncertificate_days = 0.001\n")
    with structlog.testing.capture_logs() as logs:
        a = await inprocess.secure_local("10008", hub)
        assert a.node_identity is not None
        first: NodeCertificate = a.node_identity.certificate
        await until(lambda: a.node_identity is not None and a.node_identity.certificate.serial != first.serial)
    assert any(line["event"] == "certificate_active" for line in logs)


async def test_a_link_ends_with_its_certificate_and_with_a_revocation_by_another_process(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform_node.node.REVOCATION_S", 3600.0)
    hub = await inprocess.secure_hub()
    a = await inprocess.secure_local("10008", hub)
    await linked(a)
    session = hub.parts.links.links["1.10008"].session
    hub.parts.guard.check()
    assert hub.parts.links.links["1.10008"].session is session
    hub.parts.guard._clock = ShiftedClock(timedelta(days=91))
    hub.parts.guard.check()
    hub.parts.guard._clock = SystemClock()
    await until(
        lambda: "1.10008" not in hub.parts.links.links or hub.parts.links.links["1.10008"].session is not session
    )
    await until(lambda: "1.10008" in hub.parts.links.links)
    await linked(a)
    assert a.node_identity is not None
    with engine_of(hub.store.url).connect() as connection:
        identities.revoke(connection, [a.node_identity.certificate.serial_text], hub.clock.wall(), "lost")
    await until(lambda: "1.10008" not in hub.parts.links.links)
    await until(lambda: "ACCESS_REFUSED" in uplink_of(a).last_error)


async def test_an_expired_certificate_ends_its_link_although_the_hub_cannot_read_its_key_ring(
    inprocess: InProcess,
) -> None:
    hub = await inprocess.secure_hub()
    a = await inprocess.secure_local("10008", hub)
    await linked(a)
    assert hub.node_identity is not None
    (hub.node_identity.ring.folder / SLOTS_FILE).write_text("[]")
    hub.parts.guard._clock = ShiftedClock(timedelta(days=91))
    with pytest.raises(KeyRefused):
        hub._maintain_certificate()
    assert open_sessions(hub, "10008") == []


async def test_the_directory_refuses_invalid_certificates(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    hub_authority = hub.registry.authority
    assert hub_authority is not None
    node, now = Address(1, "10008"), hub.clock.wall()
    valid = issued(hub_authority, at=now)
    assert hub.directory.introduce(node, [valid.pem.decode()])
    for invalid, error in (
        (issued(authority(), at=now), WrongAuthority),
        (issued(hub_authority, "1.56001", at=now), WrongName),
    ):
        with pytest.raises(error):
            hub.directory.introduce(node, [invalid.pem.decode()])
    expired = issued(hub_authority, at=now - timedelta(days=9), days=1)
    assert hub.directory.introduce(node, [expired.pem.decode(), valid.pem.decode()]) is None
    hub.registry.revoked.add(valid.serial_text)
    hub.apply_revocations()
    assert hub.directory.certificates(node) == ()
    # A node that has enrolled again still has the revoked certificate in slot ``previous``.
    new = issued(hub_authority, at=now).pem.decode()
    assert hub.directory.introduce(node, [new, valid.pem.decode()]) == (new,)
