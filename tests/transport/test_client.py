"""A dialled connection: blocked publishers, loss of the link, and the errors that callers get."""

import asyncio

import pytest

from semq.amqp.errors import ConnectionForced, NotAllowed
from semq.broker.limits import BrokerLimits
from semq.broker.services import SessionInfo
from semq.broker.vhost import SessionHooks
from semq.transport.errors import LinkLost
from tests.transport.pair import header, pair
from tests.transport.publishing import publish_and_wait


async def test_all_callers_get_the_reason_when_the_server_closes_the_connection() -> None:
    async with pair() as endpoints:
        link = await endpoints.dial()
        channel = await link.open_channel()
        await channel.confirm_select()
        received: list[object] = []
        link.on_closed = received.append
        channel.on_closed = received.append
        waiting = asyncio.ensure_future(channel.get("none"))
        (session,) = endpoints.server.sessions
        session.info.close(NotAllowed("replaced by a newer connection"))
        error = await link.wait_closed()
        assert isinstance(error, NotAllowed)
        assert received == [error, error]
        with pytest.raises(NotAllowed):
            await waiting
        with pytest.raises(NotAllowed):
            channel.publish("", "q", header(b""), b"")
        with pytest.raises(NotAllowed):
            await link.open_channel()


async def test_a_reason_that_arrives_with_the_opening_is_reported() -> None:
    def refuse(session: SessionInfo) -> None:
        session.close(NotAllowed("not you"))

    async with pair() as endpoints:
        endpoints.server.vhosts["/"].hooks.append(SessionHooks(on_open=refuse))
        link = await endpoints.dial()
        with pytest.raises(NotAllowed, match="not you"):
            await link.open_channel()


async def test_a_lost_socket_is_a_lost_link() -> None:
    async with pair() as endpoints:
        link = await endpoints.dial()
        channel = await link.open_channel()
        await channel.confirm_select()
        opening = asyncio.ensure_future(link.open_channel())
        confirm = asyncio.ensure_future(publish_and_wait(channel, "", "q", header(b"1"), b"1"))
        await asyncio.sleep(0)
        link.link.abort()
        assert isinstance(await link.wait_closed(), LinkLost)
        for waiting in (opening, confirm):
            with pytest.raises(LinkLost):
                await waiting
        assert not channel.is_open


async def test_a_stop_of_the_server_is_reported() -> None:
    async with pair() as endpoints:
        link = await endpoints.dial()
        await endpoints.server.stop(5.0)
        assert isinstance(await link.wait_closed(), ConnectionForced)


async def test_a_channel_without_a_waiting_caller_is_closed_again() -> None:
    async with pair() as endpoints:
        link = await endpoints.dial()
        opening = asyncio.ensure_future(link.open_channel())
        await asyncio.sleep(0)
        opening.cancel()
        await link.open_channel()
        await link.open_channel()
        assert sorted(link.channels) == [2, 3]


async def test_a_blocked_publisher_is_notified_and_continues_when_memory_is_free_again() -> None:
    limits = BrokerLimits(memory_high=2_000_000, memory_low=1_000_000)
    async with pair(limits=limits) as endpoints:
        publisher, consumer = await endpoints.dial(), await endpoints.dial()
        blocked: list[str | None] = []
        publisher.on_blocked = blocked.append
        channel = await publisher.open_channel()
        await channel.declare_queue("q")
        ready: list[int] = []
        channel.on_ready = lambda: ready.append(1)
        body = bytes(100_000)
        while not blocked:
            channel.publish("", "q", header(body), body)
            await asyncio.sleep(0)
        assert not channel.may_publish
        waiting = asyncio.ensure_future(channel.wait_ready())
        consuming = await consumer.open_channel()
        assert endpoints.server.figures().memory_bytes < 4_000_000
        await consuming.consume("q", lambda batch: consuming.ack(batch[-1].delivery_tag, multiple=True))
        await waiting
        assert blocked == ["low on memory", None]
        assert ready
        assert endpoints.server.figures().alarms == 1
