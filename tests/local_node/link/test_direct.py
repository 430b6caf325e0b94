"""Direct links of real nodes with certificates: documents while the hub is away, and the logins of partners."""

import asyncio
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from local_node.link.direct import PartnerLogins, is_withdrawn
from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError, ConnectionForced
from semq.amqp.sasl import Credentials
from semq.answers.status import DirectLink, PathState
from semq.broker.users import Permissions, User, UserTable, digest_of
from semq.config.settings import Settings
from semq.engine.errors import UnknownTarget
from semq.engine.uplink import DIRECTLY
from semq.pki.errors import Revoked, WrongName
from semq.pki.slots import SLOTS_FILE
from semq.service.credentials.identity import must_be, ring_of
from semq.service.links.rights import UMX
from semq.store.files import write_safely
from semq.store.rows import Event
from semq.transport.client_channel import ClientChannel
from semq.transport.errors import LinkLost
from semq.transport.peer import PeerInfo
from semq.umx_t.address import Address
from tests.depth import deeper
from tests.flows.real_nodes.test_left_alone import QUEUES, count
from tests.pki.people import add, authority, issued, trust
from tests.service.inprocess import LOCAL_CONFIG, InProcess, ask, linked
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

A, B = "1.10008", "1.56001"
ROUNDS, PER_ROUND = deeper(4, 6), deeper(10, 20)


class DirectApplication:
    """An application at a node, which acknowledges every document."""

    def __init__(self, channel: ClientChannel) -> None:
        self._channel = channel
        self.received: list[bytes] = []

    async def submit(self, target: str, *bodies: bytes) -> None:
        """Submit documents with one order key; all are accepted when this returns."""
        headers: dict[str, Any] = {"@SaveFwd": 3, "@Ack2": 1, "@OrderKey": "k"}
        assert all(await asyncio.gather(*(self.publish(target, body, headers) for body in bodies)))

    async def publish(self, target: str, body: bytes, headers: dict[str, Any]) -> bool:
        return await publish_and_wait(
            self._channel, "semq", target, ContentHeader.build(len(body), Properties(headers=headers)), body
        )

    async def consume(self) -> None:

        def on_documents(batch: Sequence[Any]) -> None:
            self.received += [bytes(delivered.body) for delivered in batch]
            self._channel.ack(batch[-1].delivery_tag, multiple=True)

        await self._channel.consume("semq.inbox", on_documents)


@dataclass
class DirectScene:
    """A hub and two institutions with a direct link."""

    inprocess: InProcess
    hub: HubNode
    a: LocalNode
    b: LocalNode

    async def applications(self) -> list[DirectApplication]:
        applications = []
        for node in (self.a, self.b):
            channel = await (await self.inprocess.client(node)).open_channel()
            await channel.confirm_select()
            applications.append(DirectApplication(channel))
            await applications[-1].consume()
        return applications

    @property
    def is_direct(self) -> bool:
        return bool(self.a.engine.uplink.partners and self.b.engine.uplink.partners)

    @property
    def rows_left(self) -> int:
        return sum(count(node, table) for node in (self.a, self.b) for table in QUEUES)


def ledger_details(node: LocalNode, event: Event) -> list[str]:
    with psycopg.connect(node.store.url) as connection:
        rows = connection.execute(
            "SELECT detail FROM semq_ledger WHERE event = %s AND lk0 <> '' ORDER BY number", (int(event),)
        )
        return [detail or "" for (detail,) in rows]


@pytest.fixture(scope="module")
async def scene(shared_inprocess: InProcess) -> DirectScene:
    """A scene shared by the tests of this file, which leave its link up, and no documents under way."""
    return await direct_scene(shared_inprocess)


async def direct_scene(inprocess: InProcess, settings_text: str = "") -> DirectScene:
    """Return two institutions with a direct link; ``settings_text`` is added to both configurations."""
    hub = await inprocess.secure_hub()
    b = await start_node(inprocess, hub, "56001", f'[direct."10008"]\n{settings_text}')
    a = await start_node(
        inprocess, hub, "10008", f'[direct."56001"]\nurls = ["amqps://127.0.0.1:{b.port}"]\n{settings_text}'
    )
    await linked(a, b)
    scene = DirectScene(inprocess, hub, a, b)
    await until(lambda: scene.is_direct)
    return scene


async def start_node(inprocess: InProcess, hub: HubNode, name: str, settings_text: str) -> LocalNode:
    """Return an enrolled node whose port has TLS."""
    text = (
        LOCAL_CONFIG.format(name=name, hub=hub.port)
        .replace("amqp://", "amqps://")
        .replace(f'password = "pass-{name}"\n', "")
    )
    settings = inprocess.settings(name, text.replace("port = 0\n", "port = 0\ntls = true\n") + settings_text)
    await inprocess.enrol(settings, hub)
    return await inprocess.start_node(settings)


DATAGRAMS = '[datagrams]\nhost = "127.0.0.1"\nport = 0\nanswer_s = 0.1\nkeep_s = 0.2\nreport_s = 0.1\n'
BEST_EFFORT: dict[str, Any] = {"@SaveFwd": 1, "@Reliable": 0, "@Ack2": 0}


async def datagram_status(node: LocalNode, peer: str) -> PathState:
    datagrams = (await node.status()).datagrams
    assert datagrams is not None
    return datagrams.peers.get(peer, PathState(state="closed"))


async def test_documents_receipts_and_datagrams_pass_on_a_direct_link_without_the_hub(inprocess: InProcess) -> None:
    scene = await direct_scene(inprocess, DATAGRAMS)

    async def both_open() -> bool:
        return all([(await datagram_status(*end)).state == "open" for end in ((scene.a, B), (scene.b, A))])

    await until(both_open)
    await scene.hub.stop()
    await until(lambda: not scene.a.engine.uplink.is_up and not scene.b.engine.uplink.is_up)
    a, b = await scene.applications()
    await a.submit("56001", b"to B")
    await b.submit("10008", b"to A")
    await until(lambda: (a.received, b.received) == ([b"to A"], [b"to B"]))
    await until(lambda: not scene.rows_left)
    assert ledger_details(scene.a, Event.SENT) == [DIRECTLY]
    assert ledger_details(scene.b, Event.RECEIVED) == [DIRECTLY]
    assert ledger_details(scene.a, Event.DELIVERED)[0].startswith("receipt ")  # signed, as it would be through the hub
    assert (await scene.a.status()).direct == {B: DirectLink(link="up", dialled_by="this node", sent=1)}
    assert (await scene.b.status()).direct == {A: DirectLink(link="up", dialled_by="partner", sent=1)}
    # Best-effort documents are datagrams; reliable ones, such as those above, travel over the connection.
    for sender, target in ((a, "56001"), (b, "10008")):
        for number in range(10):
            assert await sender.publish(target, b"%d" % number, BEST_EFFORT)
    await until(lambda: len(a.received) == len(b.received) == 11)
    for node, peer in ((scene.a, B), (scene.b, A)):
        status = await datagram_status(node, peer)
        assert (status.sent, status.received, status.lost) == (10, 10, 0)


async def test_changes_between_direct_link_and_hub_keep_every_document_once_and_in_order(
    inprocess: InProcess,
) -> None:
    """The test cuts the direct link and the links to the hub in turns."""
    scene = await direct_scene(inprocess)
    a, b = await scene.applications()
    assert scene.a.parts.direct is not None
    uplink = scene.a.parts.direct.uplinks[Address(1, "56001")]
    bodies = [b"%d" % number for number in range(ROUNDS * PER_ROUND)]
    for number in range(ROUNDS):
        sending = asyncio.create_task(a.submit("56001", *bodies[number * PER_ROUND :][:PER_ROUND]))
        await asyncio.sleep(0)  # until the documents are published
        if number % 2:
            scene.hub.parts.links.end_all_sessions(ConnectionForced("cut by the test"))
        else:
            await uplink.restart()
        await sending
    await until(lambda: len(b.received) >= len(bodies))
    await until(lambda: not scene.rows_left)
    assert b.received == bodies
    assert len(ledger_details(scene.b, Event.RECEIVED)) == len(bodies)
    # Documents go through the hub while the direct link is down.
    await scene.a.parts.direct.stop()
    await until(lambda: not scene.is_direct)
    await a.submit("56001", b"through the hub")
    await until(lambda: b.received[len(bodies) :] == [b"through the hub"])
    await until(lambda: not scene.rows_left)
    assert ledger_details(scene.a, Event.SENT)[-1] == ""
    assert ledger_details(scene.b, Event.RECEIVED)[-1] == ""


async def test_an_institution_that_is_not_configured_gets_no_session(scene: DirectScene) -> None:
    """The certificate of the institution is valid: the hub has issued it."""
    settings_text = f'[direct."56001"]\nurls = ["amqps://127.0.0.1:{scene.b.port}"]\n'
    stranger = await scene.inprocess.secure_local("88001", scene.hub, settings_text)
    assert stranger.parts.direct is not None
    uplink = stranger.parts.direct.uplinks[Address(1, "56001")]
    await until(lambda: bool(uplink.last_error))
    assert "1.88001" not in map(str, scene.b.engine.uplink.partners)


async def test_a_partner_logs_in_at_the_virtual_host_of_links_only(scene: DirectScene) -> None:
    assert scene.a.node_identity is not None
    for vhost, is_admitted in ((UMX, True), ("/", False)):
        login = {"user": "", "password": None, "tls": scene.a.node_identity.client_tls(), "virtual_host": vhost}
        if is_admitted:
            await scene.inprocess.client(scene.b, **login)
        else:
            with pytest.raises((AmqpError, LinkLost)):
                await scene.inprocess.client(scene.b, **login)


async def test_the_refusal_of_a_partners_login_is_forgotten_while_the_dialled_link_is_up(scene: DirectScene) -> None:
    assert scene.a.parts.direct is not None
    assert scene.a.logins is not None
    scene.a.logins.refusals[B] = "this node refused its login: its certificate was revoked"
    await scene.a.parts.direct.check(datetime.now(UTC))
    assert not scene.a.logins.refusals


async def test_a_password_proves_no_institution() -> None:
    certificate = ssl.PEM_cert_to_DER_cert(issued(authority()).pem.decode())
    users = UserTable([User(A, digest_of("right"), {"/": Permissions()})])
    revoked: set[str] = set()
    logins = PartnerLogins(users, ["10008"], lambda certificate: str(certificate.node) in revoked)
    peer = PeerInfo("127.0.0.1", 1, tls="TLSv1.3", certificate=certificate)
    assert await logins.authenticate("PLAIN", Credentials(A, b"right"), peer) is None
    assert await logins.authenticate("EXTERNAL", Credentials("", None), peer) == A
    assert await logins.authenticate("EXTERNAL", Credentials(B, None), peer) is None
    revoked.add(A)
    assert await logins.authenticate("EXTERNAL", Credentials("", None), peer) is None
    assert logins.refusals == {A: "this node refused its login: its certificate was revoked"}
    revoked.clear()
    assert await logins.authenticate("EXTERNAL", Credentials("", None), peer) == A
    assert not logins.refusals
    must_be(Address(1, "10008"))(peer)
    with pytest.raises(WrongName):
        must_be(Address(1, "56001"))(peer)


async def revoke(scene: DirectScene, node: str) -> None:
    """Revoke all certificates of a node, as an operator of the hub does."""
    await ask(await scene.inprocess.client(scene.hub), "cert.revoke", {"which": node, "why": "stolen"})


async def until_session_ended(node: LocalNode) -> None:
    """Wait until the job that checks certificates has ended a node's direct session."""

    def has_ended() -> bool:
        node.clockwork.hasten("certificate")  # do not wait for its interval of some seconds
        return not node.engine.uplink.partners

    await until(has_ended)


async def test_a_revoked_certificate_ends_its_session_and_opens_no_other(inprocess: InProcess) -> None:
    scene = await direct_scene(inprocess)
    assert scene.a.node_identity is not None
    assert scene.a.parts.direct is not None
    assert scene.b.sealing is not None
    stolen = scene.a.node_identity.client_tls()
    login = {"user": "", "password": None, "virtual_host": UMX}
    before, uplink = scene.b.sealing.known(A), scene.a.parts.direct.uplinks[Address(1, "56001")]
    # The revoked node has dialled the session.
    await revoke(scene, A)
    await until_session_ended(scene.b)
    await until(lambda: "ACCESS_REFUSED" in uplink.last_error)
    assert "the certificate of this node is no longer valid: it was revoked" in uplink.last_error
    assert not scene.b.engine.uplink.partners
    assert "its certificate was revoked" in ((await scene.b.status()).direct or {})[A].last_error
    # It enrols again: its new certificate is admitted, the old one is not.
    await scene.a.stop()
    await inprocess.enrol(scene.a.settings, scene.hub)
    scene.a = await inprocess.start_node(scene.a.settings)
    await until(lambda: scene.b.sealing is not None and scene.b.sealing.known(A) not in (before, ()))
    await until(lambda: scene.is_direct)
    with pytest.raises((AmqpError, LinkLost)):
        await inprocess.client(scene.b, **login, tls=stolen)
    assert scene.a.node_identity is not None
    await inprocess.client(scene.b, **login, tls=scene.a.node_identity.client_tls())
    # The partner of the revoked node has dialled the session, and cannot read its key ring.
    assert scene.a.parts.direct is not None
    uplink = scene.a.parts.direct.uplinks[Address(1, "56001")]
    (scene.a.node_identity.ring.folder / SLOTS_FILE).write_text("[]")
    await revoke(scene, B)
    await until_session_ended(scene.a)
    await until(lambda: Revoked.code in uplink.last_error)
    assert not scene.a.engine.uplink.partners


def test_an_unlisted_certificate_is_withdrawn_unless_it_is_newer_than_all_listed_ones() -> None:
    signer, now = authority(), datetime.now(UTC)
    older, old, new = (issued(signer, A, at=now + timedelta(days=days)) for days in (-3, -2, -1))
    listed = [old.pem.decode()]
    assert is_withdrawn(older, listed)
    assert not is_withdrawn(old, listed)
    assert not is_withdrawn(new, listed)  # a renewal that the directory has not reported yet
    assert is_withdrawn(old, [older.pem.decode(), new.pem.decode()])
    assert is_withdrawn(old, [])
    assert not is_withdrawn(old, None)


class Hubless:
    """Nodes without a hub, with certificates of a common authority."""

    def __init__(self, inprocess: InProcess) -> None:
        self._inprocess = inprocess
        self._authority = authority("institutions")

    async def start_node(self, name: str, direct: str) -> LocalNode:
        """Return a running node whose port has TLS; ``direct`` is the end of its configuration file."""
        text = re.sub(r"\[hub\].*(?=\[protocol\])", "", LOCAL_CONFIG.format(name=name, hub=1), flags=re.DOTALL)
        settings = self._inprocess.settings(name, text.replace("port = 0\n", "port = 0\ntls = true\n") + direct)
        self.certify(settings)
        return await self._inprocess.start_node(settings)

    def certify(self, settings: Settings) -> None:
        """Give a node a certificate, and the authority to trust."""
        ring = ring_of(settings)
        add(ring, self._authority)
        write_safely(ring.trust_path, trust(self._authority).pem)


def keys_of(partner: str) -> list[str]:
    return [f"direct.{partner}.{key}" for key in ("reconnect_s_max", "reconnect_s_min", "urls")]


def is_refused(node: LocalNode, target: str) -> bool:
    try:
        node.engine.partners.check(target)
    except UnknownTarget:
        return True
    return False


async def test_a_direct_link_is_dialled_with_its_own_pauses(inprocess: InProcess) -> None:
    pauses = "reconnect_s_min = 0.03\nreconnect_s_max = 0.04\n"
    a = await Hubless(inprocess).start_node("10008", f'[direct."56001"]\nurls = ["amqps://127.0.0.1:1"]\n{pauses}')
    assert a.parts.direct is not None
    [uplink] = a.parts.direct.uplinks.values()
    assert (uplink._settings.reconnect_s_min, uplink._settings.reconnect_s_max) == (0.03, 0.04)


async def test_a_reload_adds_and_removes_partners_of_a_node_without_a_hub(inprocess: InProcess) -> None:
    hubless = Hubless(inprocess)
    b = await hubless.start_node("56001", '[direct."10008"]\n')
    c = await hubless.start_node("88001", '[direct."10008"]\n')
    to_b = f'[direct."56001"]\nurls = ["amqps://127.0.0.1:{b.port}"]\n'
    to_c = f'[direct."88001"]\nurls = ["amqps://127.0.0.1:{c.port}"]\n'
    a = await hubless.start_node("10008", to_b)
    await until(lambda: bool(a.engine.uplink.partners))
    assert is_refused(a, "1.88001")
    file = a.settings.file
    assert file is not None
    text = file.read_text()
    file.write_text(text.replace(to_b, to_b + to_c))
    result = await a.reloading.reload()
    assert (result.changed, result.restart, result.ended) == (keys_of("88001"), [], [])
    await until(lambda: len(a.engine.uplink.partners) == 2)
    assert not is_refused(a, "1.88001")
    assert not is_refused(a, B)
    file.write_text(text.replace(to_b, to_c))
    await a.reloading.reload()
    await until(lambda: list(map(str, a.engine.uplink.partners)) == ["1.88001"])
    assert is_refused(a, B)
    assert list((await a.status()).direct or ()) == list((await a.status()).partners or ()) == ["1.88001"]
    file.write_text(text)  # 56001 comes back, 88001 goes
    await a.reloading.reload()
    await until(lambda: list(map(str, a.engine.uplink.partners)) == [B])
    file_of_b = b.settings.file
    assert file_of_b is not None
    file_of_b.write_text(file_of_b.read_text().replace('[direct."10008"]', '[direct."77001"]'))
    assert (await b.reloading.reload()).ended == [A]
    await until(lambda: not b.engine.uplink.partners and not a.engine.uplink.partners)


async def test_the_last_partner_of_a_node_is_removed_by_a_restart_only(scene: DirectScene) -> None:
    file = scene.a.settings.file
    assert file is not None
    text = file.read_text()
    file.write_text(re.sub(r'\[direct."56001"\]\nurls = .*\n', "", text))
    assert (await scene.a.reloading.reload()).restart == ["direct", *keys_of("56001")]
    assert scene.is_direct
    file.write_text(text)
    await scene.a.reloading.reload()
