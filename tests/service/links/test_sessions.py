"""A hostile node with a valid certificate (10008) can state facts about itself only; 56001 and 88001 are honest."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from msgspec.structs import replace as replace_struct
from structlog.testing import capture_logs

from local_node.node import LocalNode
from platform_node.errors import SecondStore
from platform_node.node import HubNode
from semq.amqp import errors as amqp
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError
from semq.broker.services import SessionInfo
from semq.engine.frames import write_frame
from semq.pki.tls import client_context
from semq.service.credentials.identity import ring_of, trust_of
from semq.service.engine_handle import EngineHandle
from semq.service.links.sessions import Links, Refuse, last_document
from semq.transport.client import ClientLink
from semq.transport.client_channel import ClientChannel
from semq.transport.turn import Turn
from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes, Data, Envelope, Frame, Function, Packet, Primitive
from semq.umx_t.locator import LK0, LK1
from semq.umx_t.records import AckFlag, Answer, HubFlag, Inquiry, InquiryRole, Presence, Receipt
from semq.umx_t.status import SaveFwd
from semq.umx_t.version import PROPERTY, offer
from tests.service.inprocess import InProcess, ask, linked
from tests.transport.publishing import publish_and_wait
from tests.waiting import until

ME, HONEST, THIRD, HUB = Address(1, "10008"), Address(1, "56001"), Address(1, "88001"), Address(2, "hub")


@dataclass
class LinksScene:
    inprocess: InProcess
    hub: HubNode
    honest: LocalNode
    login: dict[str, Any]
    link: ClientLink
    channel: ClientChannel
    before: Mapping[str, int]  #: the hub's counts of events when the session began

    async def send(self, frame: Frame, user_id: str | None = None) -> None:
        key, header, body = write_frame(frame)
        if user_id is not None:
            header = header.amended(user_id=user_id)
        assert await publish_and_wait(self.channel, "umx", key, header, bytes(body))

    @property
    def violations(self) -> int:
        return self.counted("violation")

    def counted(self, event: str) -> int:
        return self.hub.engine.core.counters.counts.get(event, 0) - self.before.get(event, 0)


@pytest.fixture(scope="module")
async def network(shared_inprocess: InProcess) -> tuple[HubNode, LocalNode, dict[str, Any]]:
    """The hub, the honest node, and the login of the hostile one."""
    hub = await shared_inprocess.secure_hub()
    # The hostile node's frames have no proof of origin.
    honest = await shared_inprocess.secure_local("56001", hub, '[secrecy]\nunproved_from = ["10008"]\n')
    settings = shared_inprocess.secure_settings("10008", hub)
    await shared_inprocess.enrol(settings, hub)
    ring = ring_of(settings)
    login: dict[str, Any] = {
        "virtual_host": "umx", "user": "", "password": None, "tls": client_context(trust_of(settings, ring), ring),
        "client_properties": {PROPERTY: offer(), "node": "1.10008", "store_uuid": "a", "boot": 1, "incarnation": "1"},
    }  # fmt: skip
    return hub, honest, login


@pytest.fixture
async def scene(
    shared_inprocess: InProcess, network: tuple[HubNode, LocalNode, dict[str, Any]]
) -> AsyncIterator[LinksScene]:
    """A session of the hostile node, ended before the next test begins."""
    hub, honest, login = network
    await linked(honest)
    async with AsyncExitStack() as stack:
        nodes = replace(shared_inprocess, stack=stack)
        link = await nodes.client(hub, **login)
        channel = await link.open_channel()
        await channel.confirm_select()
        for queue in ("node.1.10008", "node.1.10008.control"):
            await channel.consume(queue, lambda batch: None)
        before = dict(hub.engine.core.counters.counts)
        yield LinksScene(nodes, hub, honest, login, link, channel, before)
    await until(lambda: "1.10008" not in hub.parts.links.links)


async def test_a_hostile_node_reads_no_queue_of_another_node(scene: LinksScene) -> None:
    for queue in ("node.1.56001", "node.1.56001.control", "node.1.100081", "node.2.hub"):
        for method in ("consume", "get"):
            channel = await scene.link.open_channel()
            with pytest.raises((amqp.AccessRefused, amqp.NotFound)):
                await (channel.consume(queue, lambda batch: None) if method == "consume" else channel.get(queue))


async def test_a_hostile_node_writes_to_the_exchange_of_links_only(scene: LinksScene) -> None:
    for exchange in ("", "amq.direct", "amq.topic", "semq.admin"):
        channel = await scene.link.open_channel()
        await channel.confirm_select()
        with pytest.raises((amqp.AccessRefused, amqp.NotFound)):
            await publish_and_wait(channel, exchange, "node.1.56001", ContentHeader.build(1, Properties()), b"x")
    for vhost in ("/", "nowhere"):
        with pytest.raises(AmqpError):
            await scene.inprocess.client(scene.hub, **scene.login | {"virtual_host": vhost})


def message(source: Address = ME, owner: Address = ME, **more: Any) -> Data:
    lk0 = LK0(owner.type, owner.id, 1, 1, 5, 77)
    return Data(Envelope(source=source, target=HONEST, lk0=lk0, attributes=Attributes(), sid=0, **more), b"forged")


def packet(function: Function, primitive: Primitive, record: Any, source: Address = ME, to: Address = HONEST) -> Packet:
    return Packet(source, to, function, primitive, [record])


IDENT = "1.56001.1.1.5.77"  # a message that the honest node may have sent to a third node
# false statement | frame
FALSE_STATEMENTS: dict[str, Frame] = {
    "a message from another node": message(source=THIRD, owner=THIRD),
    "a message from the hub": message(source=HUB),
    "another node's message": message(owner=THIRD),
    "its own message under another node's name": message(source=THIRD),
    "a void marker of another node": message(owner=THIRD, void=True, signature="x.AA"),
    "a stored copy, as only the hub sends it": message(lk1=LK1(1, 1, 1)),
    "a packet from another node": packet(
        Function.INQUIRIES, Primitive.REQUEST, Inquiry(role=InquiryRole.S, ident="1.88001.1.1.5.7"), source=THIRD
    ),
    "a packet from the hub": packet(
        Function.RECEIPTS, Primitive.INDICATION, Receipt(flag=HubFlag.STORED, ident=IDENT, lk1=(1, 1, 1)), source=HUB
    ),
    "a receipt of the hub: stored": packet(
        Function.RECEIPTS, Primitive.INDICATION, Receipt(flag=HubFlag.STORED, ident=IDENT, lk1=(1, 1, 1))
    ),
    "a receipt of the hub: refused": packet(
        Function.RECEIPTS, Primitive.INDICATION, Receipt(flag=HubFlag.REFUSED, ident=IDENT, att=1)
    ),
    "a presence record of the hub": packet(Function.PRESENCE, Primitive.INDICATION, Presence(node="1.88001")),
    "another node's certificates": packet(
        Function.PRESENCE, Primitive.INDICATION, Presence(node="1.56001", certificates=()), to=HUB
    ),
    "an inquiry in the role of the hub": packet(
        Function.INQUIRIES, Primitive.REQUEST, Inquiry(role=InquiryRole.P, ident="1.88001.1.1.5.7", sid=0)
    ),
    "an inquiry about another node's message": packet(
        Function.INQUIRIES, Primitive.REQUEST, Inquiry(role=InquiryRole.S, ident="1.88001.1.1.5.7", sid=0)
    ),
    "an inquiry about the hub's copy of another node's message": packet(
        Function.INQUIRIES, Primitive.REQUEST, Inquiry(role=InquiryRole.S, ident=IDENT, lk1=(1, 1, 1)), to=HUB
    ),
    "a receipt for a message to another node": packet(
        Function.RECEIPTS,
        Primitive.INDICATION,
        Receipt(ack_flag=AckFlag.END_TO_END, status=Answer.RECV, ident="1.88001.1.1.5.7"),
    ),
    "floors of another node's stream": packet(
        Function.RECEIPTS,
        Primitive.RESPONSE,
        Receipt(ack_flag=AckFlag.END_TO_END, ident="1.88001.1.1.5.7", floors={"5": (99, None)}),
    ),
}


async def test_every_false_statement_is_refused_and_noted(scene: LinksScene) -> None:
    honest_counts, lines_before = scene.honest.engine.core.counters.counts, noted_statements(scene.hub)
    honest_before = dict(honest_counts)
    for count, (what, frame) in enumerate(FALSE_STATEMENTS.items(), 1):
        await scene.send(frame)
        await until(partial(is_noted, scene, count))
        assert scene.violations == count, what
    await until(lambda: noted_statements(scene.hub) >= lines_before + len(FALSE_STATEMENTS))
    assert noted_statements(scene.hub) == lines_before + len(FALSE_STATEMENTS)
    for event in ("received", "violation"):  # the honest node has received none of these
        assert honest_counts.get(event) == honest_before.get(event)
    assert scene.link.is_open


def is_noted(scene: LinksScene, count: int) -> bool:
    return scene.violations >= count


def noted_statements(hub: HubNode) -> int:
    return int(one(hub, "SELECT count(*) FROM semq_ledger WHERE detail LIKE '%SEMQ-1220%'")[0])


async def test_a_hostile_node_acknowledges_only_messages_addressed_to_it(scene: LinksScene) -> None:
    admin = await scene.inprocess.client(scene.honest)
    sent = (await ask(admin, "msg.submit", {"target": "88001", "body_base64": "eA=="}))["result"]["lk0"]

    async def status() -> Any:
        return (await ask(admin, "msg.show", {"id": sent}))["result"]

    async def is_stored() -> bool:
        return bool((await status())["ss_status"] == "SS_ACK")

    await until(is_stored)
    (row_id,) = one(scene.hub, "SELECT object_id FROM tb_0031 WHERE dest = '1.88001'")
    counts = scene.honest.engine.core.counters.counts
    violations = counts.get("violation", 0)
    false_ack2 = Receipt(ack_flag=AckFlag.END_TO_END, status=Answer.RECV, ident=sent)
    await scene.send(packet(Function.RECEIPTS, Primitive.INDICATION, false_ack2))
    await until(lambda: counts.get("violation", 0) > violations)  # the sender checks the addressee
    for receipt in (
        Receipt(ack_flag=AckFlag.TRANSPORT, ident=sent, src_ref_id=row_id),
        Receipt(ack_flag=AckFlag.TRANSPORT, ident="1.10008.1.1.5.7", src_ref_id=row_id),
    ):
        await scene.send(packet(Function.RECEIPTS, Primitive.INDICATION, receipt, to=HUB))
    answered = Inquiry(role=InquiryRole.P, answer=Answer.RECV, ident=sent, ref_id=row_id, lk1=(1, 1, row_id))
    await scene.send(packet(Function.INQUIRIES, Primitive.CONFIRMATION, answered, to=HUB))
    await until(lambda: scene.counted("ack_other") == 2)
    assert (await status())["ss_status"] == "SS_ACK"
    assert one(scene.hub, "SELECT count(*) FROM tb_0031 WHERE dest = '1.88001'") == (1,)


def one(hub: HubNode, query: str) -> tuple[Any, ...]:
    with psycopg.connect(hub.store.url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row


async def test_another_name_in_the_property_user_id_ends_the_channel(scene: LinksScene) -> None:
    with pytest.raises(amqp.PreconditionFailed, match="user_id"):
        await scene.send(message(), user_id="1.56001")


async def test_another_name_at_the_login_is_refused(scene: LinksScene) -> None:
    lies: list[dict[str, Any]] = [
        {"client_properties": scene.login["client_properties"] | {"node": "1.56001"}},
        {"user": "1.56001", "password": "pass-56001"},
        {"user": "1.56001", "password": ""},
    ]

    async def log_in(lie: dict[str, Any]) -> None:
        link = await scene.inprocess.client(scene.hub, **scene.login | lie)
        await link.open_channel()

    for lie in lies:
        with pytest.raises(AmqpError):
            await log_in(lie)
    assert scene.hub.parts.links.links["1.56001"].is_up


async def test_a_malformed_statement_about_a_store_is_refused(scene: LinksScene) -> None:
    """A malformed statement would fail the job that writes the statements of all nodes."""
    registry = scene.hub.registry
    await until(lambda: not registry._unwritten)
    await scene.inprocess.client(scene.hub, **scene.login)
    known = registry.stores["1.10008"]
    await registry.rebind("1.10008")
    for lie in ({"store_uuid": "a\0"}, {"store_uuid": "a" * 37}, {"store_uuid": "a\n"}, {"incarnation": "\x1b[2J"}):
        with pytest.raises(AmqpError, match="SEMQ-1253"):
            await log_in(scene, scene.login["client_properties"] | lie)
        assert "1.10008" not in registry.stores
    await scene.inprocess.client(scene.hub, **scene.login)
    await registry.write_stores()
    assert registry.stores["1.10008"].store_uuid == known.store_uuid


async def test_a_restored_node_is_recognised_after_a_login_with_another_store_that_was_refused_later() -> None:
    refusals: list[Refuse] = []

    def note_store(node: str, store_uuid: str, boot: int, refuse: Refuse) -> int:
        refusals.append(refuse)
        return 0

    links = Links(EngineHandle(), Turn(), 1, note_store)
    closed: list[AmqpError] = []

    def log_in_with(store_uuid: str, boot: int) -> None:
        properties = {PROPERTY: offer(), "store_uuid": store_uuid, "boot": boot}
        session = SimpleNamespace(user="1.10008", client_properties=properties, close=closed.append)
        links.check_login(cast(SessionInfo, session))

    log_in_with("b", 1)
    refusals[-1](SecondStore())
    assert not links.statements
    log_in_with("a", 5)
    log_in_with("b", 1)
    refusals[-1](SecondStore())
    assert len(closed) == 2
    with capture_logs() as lines:
        log_in_with("a", 4)
    assert [line["event"] for line in lines] == ["node_restored"]
    refusals[1](SecondStore())  # not the last statement of the node
    assert links.statements["1.10008"].boot == 4
    log_in_with("b", 1)
    log_in_with("b", 2)
    for refuse in reversed(refusals[-2:]):  # as ``Registry.write_stores`` does
        refuse(SecondStore())
    assert links.statements["1.10008"].store_uuid == "a"


def test_the_last_document_is_the_last_one_of_class_3_that_the_node_has_sent_or_recorded() -> None:
    sent = message(Address(1, "10008"))
    envelope = replace_struct(sent.envelope, submitted_at=7)
    must = replace_struct(sent, envelope=replace_struct(envelope, attributes=Attributes(save_fwd=SaveFwd.MUST)))
    best_effort = replace_struct(sent, envelope=replace_struct(envelope, attributes=Attributes(save_fwd=SaveFwd.DROP)))
    receipts = [
        Receipt(ack_flag=AckFlag.END_TO_END, ident="1.56001.1.1.5.1", status=Answer.RECV, at=8),
        Receipt(ack_flag=AckFlag.END_TO_END, ident="1.56001.1.1.5.2", status=Answer.REJ, at=9),
    ]
    packet = Packet(ME, HONEST, Function.RECEIPTS, Primitive.INDICATION, receipts)
    question = Packet(ME, HONEST, Function.INQUIRIES, Primitive.REQUEST, [Inquiry()])
    assert last_document([must, packet, question]) == ("1.56001.1.1.5.1", 8)
    assert last_document([packet, must, best_effort]) == (must.envelope.ident, 7)
    assert last_document([best_effort, question]) is None


async def log_in(scene: LinksScene, client_properties: dict[str, Any]) -> None:
    link = await scene.inprocess.client(scene.hub, **scene.login | {"client_properties": client_properties})
    await link.open_channel()


async def test_frames_of_a_second_session_of_the_same_name_are_ignored(scene: LinksScene) -> None:
    clone = await scene.inprocess.client(scene.hub, **scene.login)
    channel = await clone.open_channel()
    await channel.confirm_select()
    key, header, body = write_frame(FALSE_STATEMENTS["a presence record of the hub"])
    assert await publish_and_wait(channel, "umx", key, header, bytes(body))
    with pytest.raises(amqp.ResourceLocked, match="another session"):
        await channel.consume("node.1.10008", lambda batch: None)
    await scene.send(FALSE_STATEMENTS["a message from the hub"])
    await until(lambda: scene.violations)
    assert scene.violations == 1
    assert scene.link.is_open


async def test_old_frames_over_a_new_link_change_nothing(scene: LinksScene) -> None:
    own_message = message(att=1, submitted_at=1, digest=sha256(b"forged").digest())
    counts = scene.honest.engine.core.counters.counts
    await scene.send(own_message)
    await scene.send(own_message)
    await until(lambda: counts.get("duplicate") == 1)
    await scene.link.close()
    await until(lambda: "1.10008" not in scene.hub.parts.links.links)
    link = await scene.inprocess.client(scene.hub, **scene.login)
    scene.channel = await link.open_channel()
    await scene.channel.confirm_select()
    for queue in ("node.1.10008", "node.1.10008.control"):
        await scene.channel.consume(queue, lambda batch: None)
    await scene.send(own_message)
    await until(lambda: counts.get("duplicate") == 2)
    assert counts["received"] == 1


async def test_sessions_ended_by_the_hub_are_ended_in_its_engine(scene: LinksScene) -> None:
    """The engine may be a new one, in which a node has already logged in: it must not count as online."""
    await until(lambda: scene.hub.engine.sessions)
    scene.hub.parts.links.end_all_sessions(amqp.ConnectionForced("anew"))
    assert not scene.hub.engine.sessions
    await until(lambda: str(HONEST) in scene.hub.engine.sessions)


async def test_a_session_with_one_of_its_two_consumers_is_ended_with_all_other_sessions(scene: LinksScene) -> None:
    """The hub forgets that consumer, so the second one would not bring the node online."""
    await scene.link.close()
    await until(lambda: "1.10008" not in scene.hub.parts.links.links)
    link = await scene.inprocess.client(scene.hub, **scene.login)
    channel = await link.open_channel()
    await channel.consume("node.1.10008", lambda batch: None)
    scene.hub.parts.links.end_all_sessions(amqp.ConnectionForced("anew"))
    await until(lambda: not link.is_open)
