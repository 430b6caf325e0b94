"""Documents sent from one institution to another with the client."""

import asyncio
import gc
import json
from hashlib import sha256
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest

from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import LocalMisuse, NotFound, SyntaxFault
from semq.amqp.events import Delivered
from semq.app import (
    AppKey,
    BodyNotKept,
    Client,
    Document,
    DocumentEvent,
    NodeUnreachable,
    NotYetKnown,
    RefusedByNode,
    Sent,
)
from semq.app.file_body import FileBody
from semq.app.requests import _RequestChannel
from semq.transport.client_channel import ClientChannel
from semq.transport.errors import LinkLost
from tests.app.full_disk import full_disk, spooling
from tests.app.network import ABSENT, DOCUMENT_MAX, STRANGER, Network
from tests.test_trace_context import PARENT
from tests.waiting import PATIENCE_S, until


async def receive_and_ack(receiver: Client, *submitted: Sent) -> list[Document]:
    """Receive and return the submitted documents; acknowledge these and all before them."""
    missing, received = {sent.lk0 for sent in submitted}, []
    async with receiver.receive(idle_s=PATIENCE_S) as documents:
        async for document in documents:
            await document.ack()
            if document.lk0 in missing:
                received.append(document)
                missing.discard(document.lk0)
            if not missing:
                break
    return received


async def test_a_document_arrives_with_all_its_attributes(sender: Client, receiver: Client) -> None:
    body = "货品清单 №1".encode()
    key = AppKey("trade", "order", "standard", str(uuid4()))
    own_headers = {"x-own": 7, "traceparent": PARENT}
    sent = await sender.send(
        "56001", body, app_key=key, order_key="S1", content_type="text/plain", headers=own_headers, priority=3
    )
    assert sent.digest == sha256(body).hexdigest()
    [document] = await receive_and_ack(receiver, sent)
    assert (document.lk0, document.payload, document.app_key) == (sent.lk0, body, key)
    assert document.source == "1.10008"
    assert document.is_intact
    assert not document.redelivered
    assert (document.order_key, document.content_type, document.headers) == ("S1", "text/plain", own_headers)


async def test_the_sender_is_informed_that_the_receiver_has_the_document(sender: Client) -> None:
    sent = await sender.send("56001", b"to be delivered")
    fate = await sender.wait_for_delivery(sent.lk0, 30)
    assert fate.is_delivered
    assert await sender.wait_for_delivery(sent.lk0, 30) == fate  # also for a document that has ended already


async def test_the_outcome_is_known_after_the_row_of_the_sender_was_deleted(sender: Client) -> None:
    sent = await sender.send("10008/nobody", b"to ourselves")
    fate = await sender.wait_for_delivery(sent.lk0, 60)

    async def is_cleaned() -> bool:
        return bool((await sender.look(sent.lk0))["side"] != "outbound")

    await until(is_cleaned)
    assert await sender.wait_for_delivery(sent.lk0, 60) == fate


async def test_a_wait_without_an_outcome_in_time_raises_not_yet_known(sender: Client) -> None:
    sent = await sender.send(ABSENT, b"nobody is there")
    with pytest.raises(NotYetKnown) as caught:
        await sender.wait_for_delivery(sent.lk0, 0.5)
    assert caught.value.facts["lk0"] == sent.lk0


async def test_a_wait_ends_in_time_also_if_its_subscription_to_events_does_not_open(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(network.sender.url, patience_s=5) as client:
        sent = await client.send(ABSENT, b"nobody is there")
        monkeypatch.setattr(ClientChannel, "bind_queue", lambda *_: asyncio.Event().wait())
        with pytest.raises(NotYetKnown):
            await client.wait_for_delivery(sent.lk0, 0.2)
        assert [subscription.is_closed for subscription in client._subscriptions] == [True]


async def test_events_show_the_states_of_a_document(sender: Client) -> None:
    received: list[DocumentEvent] = []
    async with sender.events("*.56001.waybill") as events:
        sent = await sender.send("56001", b"on its way", app_key="trade/waybill/sea/W1")
        async for event in events:
            received.append(event)
            if event.is_final:
                break
    assert {event.lk0 for event in received} == {sent.lk0}
    assert (received[0].kind, received[-1].kind, received[-1].outcome) == ("sent", "delivered", "DELIVERED")
    assert received[-1].app_key == AppKey("trade", "waybill", "sea", "W1")


async def test_a_repeat_with_the_same_token_is_recognised(sender: Client) -> None:
    first = await sender.send("56001", b"once", token=str(uuid4()))
    again = await sender.send("56001", b"once", token=first.token)
    assert (again.lk0, again.repeated, first.repeated) == (first.lk0, True, False)
    with pytest.raises(RefusedByNode) as caught:
        await sender.send("56001", b"something else", token=first.token)
    assert caught.value.code == "SEMQ-1205"


async def test_a_requeued_document_is_delivered_again_and_marked(sender: Client, receiver: Client) -> None:
    # A separate inbox: the consumer of an earlier test may still get a document of the common inbox.
    sent = await sender.send("56001/returner", b"twice")
    seen = []
    async with receiver.receive("returner", prefetch=1, idle_s=PATIENCE_S) as documents:
        async for document in documents:
            seen.append((document.lk0, document.redelivered, document.deliveries))
            if len(seen) == 2:
                await document.ack()
                break
            await document.requeue()
    assert seen == [(sent.lk0, False, 1), (sent.lk0, True, 2)]


async def test_unacknowledged_documents_are_delivered_again_after_a_disconnection(
    network: Network, sender: Client, receiver: Client
) -> None:
    sent = await sender.send("56001", b"left lying")
    async with Client(network.receiver.url) as first, first.receive(prefetch=100) as documents:
        async for document in documents:
            if document.lk0 == sent.lk0:
                break
    [document] = await receive_and_ack(receiver, sent)
    assert document.redelivered


async def test_a_rejected_document_is_not_delivered_again(sender: Client, receiver: Client) -> None:
    bad = await sender.send("56001", b"cannot be read")
    async with receiver.receive(idle_s=PATIENCE_S) as documents:
        async for document in documents:
            if document.lk0 == bad.lk0:
                await document.reject()
                break
            await document.ack()
    good = await sender.send("56001", b"can be read")
    assert [document.lk0 for document in await receive_and_ack(receiver, good)] == [good.lk0]


async def test_a_document_for_a_user_arrives_at_this_user(sender: Client, receiver: Client) -> None:
    sent = await sender.send("56001/buyer", b"for the buyer")
    async with receiver.receive("buyer", idle_s=PATIENCE_S) as documents:
        async for document in documents:
            await document.ack()
            assert (document.lk0, document.target) == (sent.lk0, "1.56001/buyer")
            break


async def test_an_institution_may_write_to_itself(sender: Client) -> None:
    sent = await sender.send("10008", b"to ourselves")
    assert [document.payload for document in await receive_and_ack(sender, sent)] == [b"to ourselves"]


async def test_documents_sent_at_the_same_time_arrive_once_each(sender: Client, receiver: Client) -> None:
    submitted = await asyncio.gather(*(sender.send("56001", b"number %d" % number) for number in range(200)))
    assert len({sent.lk0 for sent in submitted}) == 200
    documents = await receive_and_ack(receiver, *submitted)
    assert sorted(document.payload for document in documents) == sorted(b"number %d" % n for n in range(200))


@pytest.mark.parametrize(
    ("target", "attributes", "code"),
    [
        ("99999", {}, "SEMQ-1201"),
        (STRANGER, {}, "SEMQ-1202"),
        ("no such address!", {}, "SEMQ-1101"),
        ("", {}, "SEMQ-1101"),
        ("56001", {"save_fwd": 7}, "SEMQ-1102"),
        ("56001", {"headers": {"@SaveFwdd": 3}}, "SEMQ-1102"),
        ("56001", {"app_key": "order"}, "SEMQ-1103"),
        ("56001", {"app_key": "a/b/c/" + 129 * "k"}, "SEMQ-1103"),
        ("56001", {"app_key": AppKey("a/b", "c", "d", "e")}, "SEMQ-1103"),
        ("56001", {"reliable": False}, "SEMQ-1104"),
        ("56001", {"order_key": "k", "save_fwd": 2}, "SEMQ-1104"),
        ("56001", {"expires_at": 10**11}, "SEMQ-1206"),
    ],
)
async def test_bad_input_is_refused_with_its_code(
    sender: Client, target: str, attributes: dict[str, object], code: str
) -> None:
    with pytest.raises(RefusedByNode) as caught:
        await sender.send(target, b"x", **attributes)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert caught.value.remedy


async def test_a_document_over_the_size_limit_is_refused(sender: Client) -> None:
    with pytest.raises(RefusedByNode) as caught:
        await sender.send("56001", bytes(DOCUMENT_MAX + 1))
    assert caught.value.code == "SEMQ-1203"


async def test_a_message_over_the_limit_of_the_connection_is_the_only_one_refused(sender: Client) -> None:
    too_large = sender.send("56001", bytes(5_000_000))
    small = [sender.send("56001", b"small") for _ in range(20)]
    refused, *submitted = await asyncio.gather(too_large, *small, return_exceptions=True)
    assert isinstance(refused, RefusedByNode)
    assert refused.code == "SEMQ-4311"
    assert all(isinstance(sent, Sent) for sent in submitted)


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize(
    ("target", "headers"), [("56001", {"n": 131_000 * "x"}), (256 * "5", {})], ids=["headers", "target"]
)
async def test_a_document_that_no_frame_can_hold_is_refused_and_the_next_one_is_sent(
    sender: Client, tmp_path: Path, target: str, headers: dict[str, object], in_blocks: bool
) -> None:
    body: bytes | FileBody = b"x"
    if in_blocks:
        (tmp_path / "body").write_bytes(b"x")
        body = FileBody(tmp_path / "body")
    with pytest.raises(RefusedByNode) as caught:
        await sender.send(target, body, headers=headers)
    assert caught.value.code == LocalMisuse.code
    assert (await sender.send("56001", b"next")).lk0


@pytest.mark.parametrize("headers", [{"n": json.loads("[" * 64 + "]" * 64)}, {"n": 1 << 70}], ids=["depth", "number"])
async def test_a_document_that_no_node_can_decode_is_refused_on_a_connection_that_stays_open(
    sender: Client, headers: dict[str, object]
) -> None:
    link = await sender._link.connection(sender._link.deadline(PATIENCE_S))
    with pytest.raises(RefusedByNode):
        await sender.send("56001", b"x", headers=headers)
    assert link.is_open
    assert (await sender.send("56001", b"x", headers={"n": json.loads("[" * 63 + "]" * 63)})).lk0


async def test_a_message_that_ends_two_connections_is_not_sent_again(
    sender: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[object] = []

    async def ask(*arguments: object) -> None:
        attempts.append(arguments)
        raise SyntaxFault("a table is nested too deeply", 60, 40)

    monkeypatch.setattr(_RequestChannel, "ask", ask)
    with pytest.raises(NodeUnreachable, match="nested too deeply"):
        await sender.send("56001", b"x")
    assert len(attempts) == 2


class OwnChannel:
    """A channel without a connection."""

    async def wait_ready(self) -> None:
        """The channel is ready."""

    def publish(self, *_: object) -> None:
        """Drop a message."""


@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_request_that_nobody_awaits_any_more_may_have_closed_the_channel(is_answered: bool) -> None:
    channel = _RequestChannel(cast(ClientChannel, OwnChannel()), "answers")
    header = ContentHeader.build(0, Properties())
    abandoned, innocent = [asyncio.create_task(channel.ask("", "", header, b"")) for _ in range(2)]
    await until(lambda: len(channel._waiting) == 2)
    abandoned.cancel()
    await asyncio.wait((abandoned,))
    if is_answered:
        channel._on_answers([Delivered(1, "", 1, False, "", "", header.amended(correlation_id="1"), b"{}")])
    channel._on_closed(NotFound("no exchange"))
    with pytest.raises(NotFound):
        await innocent
    assert channel.was_shared is not is_answered


async def test_a_channel_that_ends_before_a_request_was_sent_leaves_no_unread_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def end(_: OwnChannel) -> None:
        channel._on_closed(LinkLost())
        raise LinkLost

    monkeypatch.setattr(OwnChannel, "wait_ready", end)
    channel = _RequestChannel(cast(ClientChannel, OwnChannel()), "answers")
    with pytest.raises(LinkLost):
        await channel.ask("", "", ContentHeader.build(0, Properties()), b"")
    gc.collect()
    assert not caplog.text


async def test_a_request_that_must_not_repeat_is_not_sent_again_after_another_request_was_refused(
    sender: Client,
) -> None:
    await sender.request("node.status")  # opens the channel that small requests share
    refused, unrepeated = [
        asyncio.ensure_future(sender._requests.ask("no exchange", "", Properties(), b"", 60.0)),
        asyncio.ensure_future(sender.request("node.status", repeat=False)),
    ]
    await asyncio.wait((refused, unrepeated))
    assert isinstance(refused.exception(), RefusedByNode)
    assert isinstance(unrepeated.exception(), NodeUnreachable)
    assert (await sender.request("node.status"))["node"]


async def test_a_large_document_arrives(sender: Client, receiver: Client) -> None:
    body = bytes(range(256)) * (DOCUMENT_MAX // 256)
    [document] = await receive_and_ack(receiver, await sender.send("56001", body))
    assert document.is_intact
    assert document.payload == body


async def test_an_unknown_operation_is_refused(sender: Client) -> None:
    with pytest.raises(RefusedByNode) as caught:
        await sender.request("msg.frobnicate")
    assert caught.value.code == "SEMQ-2101"


async def test_an_answer_that_does_not_fit_on_the_disk_is_reported_and_the_channel_stays(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with spooling(network.sender.url, monkeypatch, size=1) as client:
        with full_disk(), pytest.raises(BodyNotKept):
            await client.request("node.status")
        requests = client._requests._shared
        assert await client.request("node.status")
        assert client._requests._shared is requests


async def test_an_empty_document_is_a_document(sender: Client, receiver: Client) -> None:
    [document] = await receive_and_ack(receiver, await sender.send("56001", b""))
    assert document.payload == b""
    assert document.is_intact
