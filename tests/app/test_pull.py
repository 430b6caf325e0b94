"""Documents taken on demand and settled one by one; ``tests/web/api/test_inbox.py`` does the same over HTTP."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from semq.app import AlreadyGone, BodyNotKept, Client, Document, unkept
from semq.app.pull import PulledDocuments
from semq.transport.client_channel import ClientChannel
from tests.app.full_disk import LARGE, full_disk, spooling
from tests.app.network import Network
from tests.waiting import PATIENCE_S, until


async def send(sender: Client, user: str, *bodies: bytes) -> None:
    """Send documents to an inbox, one after the other."""
    for body in bodies:
        sent = await sender.send(f"56001/{user}", body)
        await sender.wait_for_delivery(sent.lk0)


async def pull(sender: Client, receiver: Client, user: str, *bodies: bytes) -> PulledDocuments:
    """Send documents to an inbox and take all of them."""
    await send(sender, user, *bodies)
    pulled = await receiver.pull(user, at_most=len(bodies), wait_s=PATIENCE_S)
    assert [document.payload for document in pulled.documents] == list(bodies)
    return pulled


async def test_a_document_may_be_settled_while_another_of_the_pull_is_being_settled(
    sender: Client, receiver: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled = await pull(sender, receiver, "parallel", b"1", b"2")
    first, second = pulled.documents
    settlements: list[asyncio.Task[None]] = []
    real = ClientChannel.call

    async def settle(document: Document) -> None:
        await document.ack()
        await pulled.note_settled()

    async def call(channel: ClientChannel, *arguments: Any) -> Any:
        answer = await real(channel, *arguments)
        if not settlements:  # the second settlement begins between the reply to the first and its end
            settlements.append(asyncio.create_task(settle(second)))
            await asyncio.sleep(0)
        return answer

    monkeypatch.setattr(ClientChannel, "call", call)
    await settle(first)
    await settlements[0]
    with pytest.raises(AlreadyGone):  # the channel was closed
        await first.ack()


async def test_a_pull_ends_although_callers_gave_up_their_last_settlements(
    sender: Client, receiver: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled = await pull(sender, receiver, "abandoned", b"1", b"2")
    channel = pulled._channel

    async def call(channel: ClientChannel, *arguments: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(ClientChannel, "call", call)
    tasks = [asyncio.create_task(pulled.note_settled()) for _ in pulled.documents]
    await asyncio.sleep(0)
    for task in tasks:
        assert channel.is_open
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not channel.is_open


async def test_a_document_that_does_not_fit_on_the_disk_is_held_and_others_are_delivered(
    network: Network, sender: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with spooling(network.receiver.url, monkeypatch) as receiver:
        earlier = await pull(sender, receiver, "full", b"in work")
        await send(sender, "full", LARGE, b"behind")
        with full_disk():
            with pytest.raises(BodyNotKept) as caught:
                await receiver.pull("full", at_most=2, wait_s=PATIENCE_S)
            assert caught.value.facts["retry_after_s"] == unkept.HELD_S
            pulled = await receiver.pull("full", at_most=2, wait_s=PATIENCE_S)
        assert [document.payload for document in pulled.documents] == [b"behind"]
        for taken in (earlier, pulled):  # the connection is the same
            await taken.documents[0].ack()
            await taken.note_settled()


async def test_documents_before_one_that_does_not_fit_on_the_disk_are_delivered(
    network: Network, sender: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with spooling(network.receiver.url, monkeypatch) as receiver:
        await send(sender, "before", b"first", LARGE, b"behind")
        with full_disk():
            pulled = await receiver.pull("before", at_most=3, wait_s=PATIENCE_S)
        assert [document.payload for document in pulled.documents] == [b"first"]
        await pulled.documents[0].ack()
        await pulled.note_settled()


async def test_a_document_stays_held_although_the_others_of_its_pull_are_settled(
    network: Network, sender: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Callable[[], None]] = []
    monkeypatch.setattr("semq.app.pull.hold", lambda delivered, give_back: held.append(give_back))
    async with spooling(network.receiver.url, monkeypatch) as receiver:
        await send(sender, "stays", b"first", LARGE)
        with full_disk():
            pulled = await receiver.pull("stays", at_most=2, wait_s=PATIENCE_S)
        await pulled.documents[0].ack()
        await pulled.note_settled()
        assert (await receiver.pull("stays")).documents == []
        (give_back,) = held
        give_back()
        await until(lambda: not pulled._channel.is_open)
        again = await receiver.pull("stays", wait_s=PATIENCE_S)
        assert [(document.payload, document.deliveries) for document in again.documents] == [(LARGE, 2)]
        await again.documents[0].ack()
        await again.note_settled()


async def test_a_held_document_is_delivered_again_when_its_time_is_over(
    network: Network, sender: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unkept, "HELD_S", 0.0)
    async with spooling(network.receiver.url, monkeypatch) as receiver:
        await send(sender, "again", LARGE)
        with full_disk(), pytest.raises(BodyNotKept):
            await receiver.pull("again", wait_s=PATIENCE_S)
        pulled = await receiver.pull("again", wait_s=PATIENCE_S)
        (document,) = pulled.documents
        assert (document.payload, document.deliveries, document.is_intact) == (LARGE, 2, True)
        await document.ack()
        await pulled.note_settled()
