"""A dialled channel: requests, confirms, deliveries in batches, flow, large contents, and the end of the channel."""

import asyncio
import errno
import os
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from semq.amqp import methods as m
from semq.amqp.errors import NotFound, PreconditionFailed
from semq.amqp.events import Delivered, Returned
from semq.amqp.limits import ANY_SIZE, ConnectionLimits
from semq.broker.channel import requests
from semq.transport.client_channel import ClientChannel
from semq.transport.errors import LinkLost
from semq.transport.spool import SpooledBody, UnkeptBody
from tests.transport.pair import header, pair
from tests.transport.publishing import publish_and_wait


class Batches:
    """Collects deliveries and waits for them."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.deliveries: list[Delivered] = []
        self._news = asyncio.Event()

    def __call__(self, batch: list[Delivered]) -> None:
        self.sizes.append(len(batch))
        self.deliveries += batch
        self._news.set()

    async def until(self, count: int) -> list[bytes]:
        while len(self.deliveries) < count:
            self._news.clear()
            await self._news.wait()
        return [event.body for event in self.deliveries]


async def publish_many(channel: ClientChannel, count: int) -> list[tuple[Any, bool]]:
    """Publish messages with tokens; return their confirms as (token, confirmed)."""
    received: list[tuple[Any, bool]] = []
    done = asyncio.Event()

    def settled(pairs: list[tuple[Any, bool]]) -> None:
        received.extend(pairs)
        if len(received) >= count:
            done.set()

    channel.on_settled = settled
    for number in range(count):
        assert channel.publish("", "q", header(b"x"), b"x", token=f"t{number}") == number + 1
    assert channel.unconfirmed == count
    await done.wait()
    return received


async def test_publishes_are_confirmed_by_token_and_deliveries_come_in_batches() -> None:
    async with pair() as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        await channel.declare_queue("q", exclusive=True)
        await channel.confirm_select()
        assert await publish_many(channel, 500) == [(f"t{number}", True) for number in range(500)]
        assert channel.unconfirmed == 0
        batches = Batches()
        await channel.qos(1000)
        await channel.consume("q", batches)
        await batches.until(500)
        assert len(batches.sizes) < 100
        channel.ack(batches.deliveries[-1].delivery_tag, multiple=True)
        assert (await channel.declare_queue("q", passive=True)).message_count == 0


async def test_a_return_precedes_the_confirm_and_a_nack_is_reported() -> None:
    async with pair() as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        await channel.declare_queue("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
        await channel.confirm_select()
        returned: list[Returned] = []
        channel.on_returned = returned.append
        assert await publish_and_wait(channel, "", "nowhere", header(b"1", app_id="a"), b"1", mandatory=True)
        (event,) = returned
        assert (event.reply_code, event.routing_key, event.header.app_id, event.body) == (312, "nowhere", "a", b"1")
        assert not await publish_and_wait(channel, "", "full", header(b"1"), b"1")


async def test_without_confirms_publishes_have_no_number() -> None:
    async with pair() as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        assert channel.publish("", "nowhere", header(b""), b"") == 0
        assert channel.unconfirmed == 0


async def test_messages_can_be_got_rejected_and_nacked() -> None:
    async with pair() as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        await channel.declare_exchange("e", "topic", auto_delete=True)
        await channel.declare_queue("q", exclusive=True)
        await channel.bind_queue("q", "e", "a.*")
        assert await channel.get("q") is None
        channel.publish("e", "a.b", header(b"1"), b"1")
        first = await channel.get("q")
        assert first is not None
        channel.reject(first.delivery_tag)
        second = await channel.get("q")
        assert second is not None
        assert (second.redelivered, second.exchange, second.routing_key) == (True, "e", "a.b")
        channel.nack(second.delivery_tag, requeue=False)
        assert await channel.get("q") is None


async def test_consumers_can_be_cancelled_by_both_sides() -> None:
    async with pair() as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        cancelled: list[str] = []
        channel.on_cancelled = cancelled.append
        await channel.declare_queue("q")
        batches = Batches()
        tag = await channel.consume("q", batches)
        await channel.cancel(tag)
        tag = await channel.consume("q", batches, consumer_tag="mine", no_ack=True, exclusive=True)
        channel.publish("", "q", header(b"last"), b"last")
        await channel.call(m.QueueDelete("q"), m.QueueDeleteOk)
        assert cancelled == ["mine"]
        assert await batches.until(1) == [b"last"]


async def test_an_error_ends_its_channel_only() -> None:
    async with pair() as endpoints:
        link = await endpoints.dial()
        channel, neighbour = await link.open_channel(), await link.open_channel()
        ended: list[object] = []
        channel.on_closed = ended.append
        with pytest.raises(NotFound, match="no queue 'none'"):
            await channel.consume("none", Batches())
        assert isinstance(channel.error, NotFound)
        assert ended == [channel.error]
        with pytest.raises(NotFound):
            await channel.qos(1)
        with pytest.raises(NotFound):
            await channel.wait_ready()
        channel.ack(1)
        assert not channel.is_open
        await neighbour.qos(1)
        neighbour.ack(99)
        with pytest.raises(PreconditionFailed):
            await neighbour.qos(1)
        assert (await link.open_channel()).is_open


async def test_closing_returns_unacknowledged_messages() -> None:
    async with pair() as endpoints:
        link = await endpoints.dial()
        channel, other = await link.open_channel(), await link.open_channel()
        await other.declare_queue("q", exclusive=True)
        other.publish("", "q", header(b"1"), b"1")
        assert await channel.get("q") is not None
        channel.close()
        channel.close()
        again = await other.get("q")
        assert again is not None
        assert again.redelivered
        with pytest.raises(LinkLost):
            await channel.qos(1)


async def test_a_caller_that_gives_up_does_not_mix_up_the_answers() -> None:
    async with pair() as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        given_up = asyncio.ensure_future(channel.declare_queue("one", exclusive=True))
        await asyncio.sleep(0)
        given_up.cancel()
        assert (await channel.declare_queue("two", exclusive=True)).queue == "two"


async def test_content_is_stopped_and_started_by_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    # The broker never sends channel.flow, so it has no handler for the answer.
    flow_ok: type[m.Method] = m.ChannelFlowOk
    monkeypatch.setitem(requests._REQUESTS, flow_ok, lambda channel, request: None)
    async with pair() as endpoints:
        link = await endpoints.dial()
        channel = await link.open_channel()
        (server_session,) = endpoints.server.sessions
        server_session.machine.send(1, m.ChannelFlow(False))
        server_session.request_write()
        while channel.may_publish:
            await asyncio.wait_for(channel.qos(0), 5)
        waiting = asyncio.ensure_future(channel.wait_ready())
        await asyncio.sleep(0)
        server_session.machine.send(1, m.ChannelFlow(True))
        server_session.request_write()
        await waiting
        assert channel.may_publish


async def test_waiting_to_publish_ends_with_the_channel() -> None:
    async with pair() as endpoints:
        link = await endpoints.dial()
        channel = await link.open_channel()
        link.is_blocked = True
        waiting = asyncio.ensure_future(channel.wait_ready())
        await asyncio.sleep(0)
        channel.close()
        with pytest.raises(LinkLost):
            await waiting


async def test_a_too_large_content_is_reported_in_order_without_its_body() -> None:
    limits = ConnectionLimits(body_max=ANY_SIZE, stream_from=1001, arriving_max=1000)
    async with pair() as endpoints:
        channel = await (await endpoints.dial(limits=limits)).open_channel()
        await channel.confirm_select()
        queue = (await channel.declare_queue(exclusive=True)).queue
        bodies = [b"1", bytes(1000), bytes(1001), bytes(200_000), b"2"]
        for body in bodies:
            assert await publish_and_wait(channel, "", queue, header(body), body)
        deliveries: list[tuple[int, bytes]] = []
        done = asyncio.Event()

        def on_delivered(batch: list[Delivered]) -> None:
            deliveries.extend((delivered.header.body_size, bytes(delivered.body)) for delivered in batch)
            channel.ack(batch[-1].delivery_tag, multiple=True)
            if len(deliveries) == len(bodies):
                done.set()

        await channel.consume(queue, on_delivered)
        async with asyncio.timeout(60):
            await done.wait()
        assert deliveries == [(len(body), body if len(body) <= 1000 else b"") for body in bodies]
        assert await publish_and_wait(channel, "", queue, header(bytes(1001)), bytes(1001))


def full() -> IO[bytes]:
    """Return a file on a disk without free bytes."""
    return Path("/dev/full").open("w+b")


def missing() -> IO[bytes]:
    """Fail as on a disk without free inodes."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("size", [1001, 200_000])  # the error comes with the flush, or with a chunk
@pytest.mark.parametrize("make_file", [full, missing])
async def test_a_large_body_that_no_file_takes_is_dropped_and_the_channel_goes_on(
    monkeypatch: pytest.MonkeyPatch, size: int, make_file: Callable[[], IO[bytes]]
) -> None:
    limits = ConnectionLimits(body_max=ANY_SIZE, stream_from=1001, arriving_max=1000)
    spools: list[weakref.ref[SpooledBody]] = []

    class NotedSpool(SpooledBody):
        def __init__(self) -> None:
            super().__init__()
            spools.append(weakref.ref(self))

    monkeypatch.setattr("semq.transport.client_channel.SpooledBody", NotedSpool)
    async with pair() as endpoints:
        link = await endpoints.dial(limits=limits)
        link.keeps_large_bodies = True
        channel, other = await link.open_channel(), await link.open_channel()
        queue = (await channel.declare_queue(exclusive=True)).queue
        batches = Batches()
        await channel.consume(queue, batches)
        with monkeypatch.context() as patch:
            patch.setattr(tempfile, "TemporaryFile", lambda **_: make_file())
            channel.publish("", queue, header(bytes(size)), bytes(size))
            channel.publish("", queue, header(b"small"), b"small")
            bodies: list[Any] = await batches.until(2)
        unkept, small = bodies
        assert isinstance(unkept, UnkeptBody)
        assert small == b"small"
        assert [spooled() for spooled in spools] == [None] * len(spools)  # the files are gone
        channel.nack(batches.deliveries[0].delivery_tag)
        assert bytes((await batches.until(3))[2]) == bytes(size)
        assert (await other.declare_queue(queue, passive=True)).consumer_count == 1
