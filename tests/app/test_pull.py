"""Documents taken on demand and settled one by one; ``tests/web/api/test_inbox.py`` does the same over HTTP."""

import asyncio

import pytest

from semq.app import AlreadyGone, Client, Document
from semq.app.pull import PulledDocuments
from semq.transport.client_channel import ClientChannel
from tests.waiting import PATIENCE_S


async def pull(sender: Client, receiver: Client, user: str, *bodies: bytes) -> PulledDocuments:
    """Send documents to an inbox and take all of them."""
    for body in bodies:
        sent = await sender.send(f"56001/{user}", body)
        await sender.wait_for_delivery(sent.lk0)
    pulled = await receiver.pull(user, at_most=len(bodies), wait_s=PATIENCE_S)
    assert [document.payload for document in pulled.documents] == list(bodies)
    return pulled


async def test_a_document_may_be_settled_while_another_of_the_pull_is_being_settled(
    sender: Client, receiver: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled = await pull(sender, receiver, "parallel", b"1", b"2")
    first, second = pulled.documents
    settlements: list[asyncio.Task[None]] = []
    real = ClientChannel.qos

    async def settle(document: Document) -> None:
        await document.ack()
        await pulled.note_settled()

    async def qos(channel: ClientChannel, prefetch_count: int) -> None:
        await real(channel, prefetch_count)
        if not settlements:  # the second settlement begins between the reply to the first and its end
            settlements.append(asyncio.create_task(settle(second)))
            await asyncio.sleep(0)

    monkeypatch.setattr(ClientChannel, "qos", qos)
    await settle(first)
    await settlements[0]
    with pytest.raises(AlreadyGone):  # the channel was closed
        await first.ack()


async def test_a_pull_ends_although_callers_gave_up_their_last_settlements(
    sender: Client, receiver: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled = await pull(sender, receiver, "abandoned", b"1", b"2")
    channel = pulled._channel

    async def qos(channel: ClientChannel, prefetch_count: int) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(ClientChannel, "qos", qos)
    tasks = [asyncio.create_task(pulled.note_settled()) for _ in pulled.documents]
    await asyncio.sleep(0)
    for task in tasks:
        assert channel.is_open
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not channel.is_open
