"""Stuck messages of real nodes: `semq stuck` shows each with its cause.

The tests act as institution 10008; the hub and another institution are real. Every row counts as overdue immediately.
"""

import re
from functools import partial
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from msgspec.structs import replace as with_settings

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.engine.errors import QuotaReached
from semq.engine.people.stuck import StuckCause
from semq.seal.errors import KeyUnknown
from semq.transport.client import ClientLink
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Function, Packet, Primitive
from semq.umx_t.locator import Pos
from semq.umx_t.records import AckFlag, Answer, InquiryRole, Receipt
from tests.cli.command import semq_aside
from tests.flows.by_hand import HUB, ME, OTHER, Peer, log_in_by_hand, message
from tests.flows.losing import LosingProxy
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, ask, linked
from tests.waiting import until

SENDER = Address(1, "88001")
OVERDUE = "overdue_s = 0.001\n"
CHECKED_COMMANDS: set[str] = set()


class StuckScene:
    """The hub, an institution, and an administrator's connection to the institution."""

    def __init__(self, hub: HubNode, node: LocalNode, admin: ClientLink) -> None:
        self.hub = hub
        self.node = node
        self.admin = admin

    async def submit(self, to: str) -> str:
        answer = await ask(self.admin, "msg.submit", {"target": to, "body_base64": "eA=="})
        return str(answer["result"]["lk0"])

    async def semq(self, *words: str) -> str:
        """Return the output of the command line at the institution."""
        result = await semq_aside(*words, "--node", f"amqp://guest:guest@127.0.0.1:{self.node.port}")
        assert result.status == 0, result
        return result.out

    async def cause(self, lk0: str) -> str:
        """Return the cause for which a message is stuck; empty if it is not."""
        stuck = await self.explained(lk0)
        return str(stuck["cause"]) if stuck else ""

    async def explained(self, lk0: str) -> Any:
        """Return why a message is stuck; None if it is not."""
        return (await ask(self.admin, "stuck.explain", {"id": lk0}))["result"]["stuck"]

    async def expect_cause(self, lk0: str, cause: str) -> None:
        """Wait until a message has this cause, and the list and the command line show it."""

        async def has_cause() -> bool:
            return await self.cause(lk0) == cause

        await until(has_cause)
        listed = (await ask(self.admin, "stuck.list", {"cause": cause}))["result"]["rows"]
        assert lk0 in [row["lk0"] for row in listed] or not await has_cause()
        assert all(row["stuck"]["next_step"] for row in listed)
        before = await self.explained(lk0)
        result = await self.semq("stuck", "explain", lk0)
        # The explanation may have changed meanwhile.
        if before and before["cause"] == cause and before == await self.explained(lk0):
            next_step = before["next_step"]
            assert f"{cause}: {StuckCause[cause].meaning}" in result
            assert next_step in result
            await self._check_commands(next_step)

    async def _check_commands(self, next_step: str) -> None:
        """Check that the commands in a next step exist, with the named options."""
        for command in {*re.findall("`semq ([^`]+)`", next_step)} - CHECKED_COMMANDS:
            CHECKED_COMMANDS.add(command)
            words = [word for word in command.split() if not word.isdecimal()]
            name, options = words[:2], {word for word in words if word.startswith("--")}
            result = await semq_aside(*name, "--help")
            assert result.status == 0, command
            assert all(option in result.out for option in options), command

    async def act(self, operation: str, lk0: str) -> Any:
        """Request an operation that changes a message; return its result, None if it is refused."""
        return (await ask(self.admin, operation, {"id": lk0, "why": "tried"})).get("result")

    async def look(self, operation: str, lk0: str) -> Any:
        """Return the result of an operation that shows a message; None if it is refused."""
        return (await ask(self.admin, operation, {"id": lk0})).get("result")

    async def trace(self, lk0: str) -> list[str]:
        """Return the events in the trace of a message."""
        answer = await ask(self.admin, "msg.trace", {"id": lk0})
        return [line["event"] for line in answer["result"]["events"]]


@pytest.fixture
async def hub(inprocess: InProcess) -> HubNode:
    text = HUB_CONFIG.replace(
        'password = "pass-56001"\n', 'password = "pass-56001"\nmay_send_to = ["10008", "88001"]\n'
    )
    return await inprocess.hub(text + OVERDUE)


async def scene_with(inprocess: InProcess, hub: HubNode, name: str, more: str = "") -> StuckScene:
    """Start an institution with ``more`` settings of the protocol."""
    text = LOCAL_CONFIG.format(name=name, hub=hub.port) + more
    node = await inprocess.start_node(inprocess.settings(name, text + OVERDUE))
    await linked(node)
    return StuckScene(hub, node, await inprocess.client(node))


@pytest.fixture
async def scene(inprocess: InProcess, hub: HubNode) -> StuckScene:
    return await scene_with(inprocess, hub, "56001")


async def test_an_offline_and_a_silent_target_are_shown_as_causes(inprocess: InProcess, scene: StuckScene) -> None:
    away = await scene.submit("88001")
    await scene.expect_cause(away, "TARGET_OFFLINE")
    hub = await inprocess.client(scene.hub)
    rows = (await ask(hub, "stuck.list"))["result"]["rows"]
    assert [row["stuck"]["cause"] for row in rows] == ["TARGET_OFFLINE"]
    await log_in_by_hand(inprocess, scene.hub)
    await until(lambda: scene.node.engine.partners.online.get("1.10008"))
    silent = await scene.submit("10008")
    await scene.expect_cause(silent, "NO_ACK2")
    await scene.expect_cause(silent, "INQUIRY_SILENT")
    assert {"ACCEPTED", "FORWARDED"} <= set(await scene.trace(silent))


async def refuse(peer: Peer, lk0: str, code: str) -> None:
    ack2 = Receipt(ack_flag=AckFlag.END_TO_END, ident=lk0, status=Answer.REJ, reason=(code, "written by hand"))
    await peer.send_frame(Packet(ME, OTHER, Function.RECEIPTS, Primitive.INDICATION, [ack2]))


async def test_the_cause_names_a_refusal_by_the_receiver(inprocess: InProcess, scene: StuckScene) -> None:
    peer = await log_in_by_hand(inprocess, scene.hub)
    await until(lambda: scene.node.engine.partners.online.get("1.10008"))
    unreadable, unwanted = await scene.submit("10008"), await scene.submit("10008")
    await refuse(peer, unreadable, KeyUnknown.code)
    await refuse(peer, unwanted, QuotaReached.code)
    await scene.expect_cause(unreadable, "CANNOT_OPEN")
    await scene.expect_cause(unwanted, "REFUSED")
    listed = await scene.semq("stuck", "list")
    assert [
        f"1 × {cause.name}: {cause.meaning}" in listed for cause in (StuckCause.CANNOT_OPEN, StuckCause.REFUSED)
    ] == [True] * 2


async def test_a_missing_answer_of_the_hub_is_shown_as_the_cause(inprocess: InProcess, hub: HubNode) -> None:
    """Ack-Fwd and Ack-Save are lost, and no inquiry is due yet."""
    proxy = LosingProxy(hub.port)
    await proxy.start()
    inprocess.stack.push_async_callback(proxy.stop)
    proxy.loses = lambda primitive, record: getattr(record, "flag", None) is not None
    text = LOCAL_CONFIG.format(name="88001", hub=proxy.port).replace(
        "inquiry_s = 0.5", "inquiry_s = 600.0\ninquiry_s_max = 600.0"
    )
    node = await inprocess.start_node(inprocess.settings("88001", text + OVERDUE))
    scene = StuckScene(hub, node, await inprocess.client(node))
    await linked(node)
    lk0 = await scene.submit("10008")
    await scene.expect_cause(lk0, "NO_TRANSPORT_ACK")


async def test_a_document_that_waits_for_its_turn_is_shown_as_not_sent(inprocess: InProcess, hub: HubNode) -> None:
    """One document is under way at a time, and its receiver does not answer."""
    scene = await scene_with(inprocess, hub, "88001", "flight = 1\n")
    await log_in_by_hand(inprocess, scene.hub)
    await until(lambda: scene.node.engine.partners.online.get("1.10008"))
    await scene.submit("10008")
    await scene.expect_cause(await scene.submit("10008"), "NOT_SENT")


async def test_an_unreadable_document_is_ended_by_the_suggested_act(inprocess: InProcess, hub: HubNode) -> None:
    """The stored envelope is altered."""
    scene = await scene_with(inprocess, hub, "88001", "flight = 1\n")
    peer = await log_in_by_hand(inprocess, scene.hub)
    await until(lambda: scene.node.engine.partners.online.get("1.10008"))
    first, second = await scene.submit("10008"), await scene.submit("10008")
    await scene.expect_cause(second, "NOT_SENT")
    async with await psycopg.AsyncConnection.connect(scene.node.store.url, autocommit=True) as connection:
        row = "object_id = (SELECT object_id FROM tb_0031 WHERE lk0 = %s)"
        await connection.execute(f"UPDATE tb_0031_body SET envelope = '\\xff' WHERE {row}", (second,))
    await confirm(peer, first)
    await scene.expect_cause(second, "UNREADABLE")
    await scene.semq("msg", "cancel", second, "--why", "altered on the disk")
    ack2 = Receipt(ack_flag=AckFlag.END_TO_END, ident=second, status=Answer.VOID)
    marker = await until(partial(scene.look, "msg.show", second))
    assert marker["void"] is True
    await until(lambda: scene.node.engine.core.counters.counts["unreadable"])
    await peer.send_frame(Packet(ME, SENDER, Function.RECEIPTS, Primitive.INDICATION, [ack2]))

    async def is_cancelled() -> bool:
        return "CANCELLED" in await scene.trace(second)

    await until(is_cancelled)


async def confirm(peer: Peer, lk0: str) -> None:
    """Let 10008 send the receipt of a document of 88001."""
    ack2 = Receipt(ack_flag=AckFlag.END_TO_END, ident=lk0, status=Answer.RECV)
    await peer.send_frame(Packet(ME, SENDER, Function.RECEIPTS, Primitive.INDICATION, [ack2]))


async def test_a_document_that_its_target_never_records_is_shown_until_it_is_sent_again(
    inprocess: InProcess, scene: StuckScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub sends its copy whenever 10008 states that it does not have the document."""
    engine = scene.hub.engine
    monkeypatch.setattr(engine.core, "settings", with_settings(engine.core.settings, hub_attempts_max=2))
    lk0 = await scene.submit("10008")
    await until(lambda: engine.custody.rows_by_target.get("1.10008"))
    peer = await log_in_by_hand(inprocess, scene.hub)
    admin, denied = await inprocess.client(scene.hub), 0

    async def is_shown() -> bool:
        nonlocal denied
        for inquiry in [record for record in peer.records if getattr(record, "role", None) is InquiryRole.P][denied:]:
            denied += 1
            answer = replace(inquiry, answer=Answer.NOT)
            await peer.send_frame(Packet(ME, HUB, Function.INQUIRIES, Primitive.CONFIRMATION, [answer]))
        rows = (await ask(admin, "stuck.list", {"cause": StuckCause.NEVER_RECORDED.name}))["result"]["rows"]
        return [row["lk0"] for row in rows] == [lk0]

    await until(is_shown)
    [row] = (await ask(admin, "stuck.list", {"cause": StuckCause.NEVER_RECORDED.name}))["result"]["rows"]
    assert f"`semq held resend {row['name']}`" in row["stuck"]["next_step"]
    result = await semq_aside(
        "held", "resend", str(row["id"]), "--node", f"amqp://guest:guest@127.0.0.1:{scene.hub.port}"
    )
    assert result.out == "1 sent again, now or as soon as their target is online\n", result
    assert (await ask(admin, "stuck.list", {"cause": StuckCause.NEVER_RECORDED.name}))["result"]["rows"] == []


async def test_a_document_that_the_application_refused_is_shown_as_parked(
    inprocess: InProcess, scene: StuckScene
) -> None:
    peer = await log_in_by_hand(inprocess, scene.hub)
    channel = await scene.admin.open_channel()
    await channel.consume("semq.inbox", lambda batch: channel.reject(batch[0].delivery_tag, requeue=False))
    await peer.send_frame(message(1, 0))
    lk0 = "1.10008.1.1.5.1"

    async def is_known() -> Any:
        return (await ask(scene.admin, "msg.show", {"id": lk0})).get("ok")

    await until(is_known)
    await scene.expect_cause(lk0, "PARKED")


async def test_a_document_at_the_receiver_is_shown_with_what_it_waits_for(
    inprocess: InProcess, scene: StuckScene
) -> None:
    peer = await log_in_by_hand(inprocess, scene.hub)
    await peer.send_frame(message(1, 0))
    after = message(2, 2)
    attributes = replace(after.envelope.attributes, order_key="k")
    await peer.send_frame(Data(replace(after.envelope, prev=Pos(5, 1), attributes=attributes), after.body))
    first, second = "1.10008.1.1.5.1", "1.10008.1.1.5.2"

    async def is_known() -> Any:
        return (await ask(scene.admin, "msg.show", {"id": second})).get("ok")

    await until(is_known)
    await scene.expect_cause(first, "NOT_CONSUMED")
    channel = await scene.admin.open_channel()
    taken: list[Any] = []
    await channel.consume("semq.inbox", taken.extend)
    await scene.expect_cause(second, "BLOCKED_BY_ORDER")
    await until(lambda: taken)
    channel.ack(taken[0].delivery_tag)
    await scene.expect_cause(first, "REACK_MISSING")


async def test_acts_of_operators_are_in_the_ledger(scene: StuckScene) -> None:
    await scene.hub.stop()
    await until(lambda: scene.node.parts.hub.link is None)
    lk0 = await scene.submit("10008")
    await scene.expect_cause(lk0, "LINK_DOWN")
    await scene.act("msg.hold", lk0)
    await scene.expect_cause(lk0, "HELD")
    await scene.act("msg.release", lk0)
    await scene.act("msg.resend", lk0)
    await scene.expect_cause(lk0, "LINK_DOWN")
    await scene.act("msg.cancel", lk0)
    events = await scene.trace(lk0)
    assert events.count("OPERATOR") == 3
    assert events.count("VOIDED") == 1
    explained = await until(partial(scene.look, "stuck.explain", lk0))
    assert explained["message"]["void"] is True
