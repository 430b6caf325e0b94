"""Offers of channels to a dialling end."""

import asyncio
from typing import Any

import pytest

from semq.clock import SystemClock
from semq.config.datagrams import DatagramsSection
from semq.datagrams.port import DatagramPort
from semq.service.datagrams.ends import DiallingEnd
from semq.umx_t.address import parse_address
from semq.umx_t.envelope import Function, Packet, Primitive
from semq.umx_t.records import ChannelRecord
from tests.waiting import until

OWN, HUB, PARTNER = map(parse_address, ("1.10008", "2.hub", "1.56001"))
OFFER = ChannelRecord(id="00" * 8, secret="11" * 32, port=9)


@pytest.fixture
async def end() -> DiallingEnd:
    return DiallingEnd(DatagramsSection(), OWN, SystemClock())


def offer(end: DiallingEnd, *peers: Any, host: str = "127.0.0.1") -> "list[asyncio.Task[None]]":
    """Let each peer, at ``host``, offer a channel on a new link; return the tasks that accept the offers."""
    for peer in peers:
        link = end.begin(peer, host, lambda _: None, lambda _: True)
        link.handle_packet(Packet(peer, OWN, Function.DATAGRAMS, Primitive.INDICATION, [OFFER]))
    return list(end._tasks)


async def test_offers_that_arrive_at_the_same_time_share_one_socket(
    end: DiallingEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    open_port = DatagramPort.open

    def noted(port: DatagramPort, family: int, address: Any) -> None:
        opened.append(address)
        open_port(port, family, address)

    monkeypatch.setattr(DatagramPort, "open", noted)
    await asyncio.gather(*offer(end, HUB, PARTNER))
    end.stop()
    assert len(opened) == 1


async def test_an_offer_of_a_host_without_an_address_is_reported_as_such(end: DiallingEnd) -> None:
    await asyncio.gather(*offer(end, HUB, host="no-such-host.invalid"))
    [state] = end.status().peers.values()
    assert (state.state, end.port.is_open) == ("closed", False)
    assert state.why.startswith("SEMQ-4914 The name of a host cannot be resolved. (host='no-such-host.invalid'")
    [link] = end._links.values()
    usable = ChannelRecord(id=OFFER.id, secret=OFFER.secret, host="127.0.0.1", port=OFFER.port)
    link.handle_packet(Packet(HUB, OWN, Function.DATAGRAMS, Primitive.INDICATION, [usable]))
    await asyncio.gather(*end._tasks)
    [state] = end.status().peers.values()
    assert "answers no datagrams" in state.why
    end.stop()


async def test_of_many_offers_one_is_looked_up_at_a_time_and_then_the_last(
    end: DiallingEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer chooses the names and addresses."""
    loop, asked, may_answer = asyncio.get_running_loop(), [], asyncio.Event()
    look_up = loop.getaddrinfo

    async def slow(host: str, port: int, **options: Any) -> Any:
        asked.append((host, port))
        await may_answer.wait()
        return await look_up("127.0.0.1", port, **options)

    monkeypatch.setattr(loop, "getaddrinfo", slow)
    link = end.begin(HUB, "127.0.0.1", lambda _: None, lambda _: True)
    offers = [ChannelRecord(id=f"{n:016x}", secret=OFFER.secret, host=f"host-{n}", port=9) for n in range(1, 301)]
    for start in range(0, 300, 100):
        packet = Packet(HUB, OWN, Function.DATAGRAMS, Primitive.INDICATION, offers[start : start + 100])
        link.handle_packet(packet)
        await until(lambda: asked)
    [task] = end._tasks
    may_answer.set()
    await task
    assert [host for host, _ in asked if host.startswith("host")] == ["host-100", "host-300"]
    assert [channel.id.hex() for channel in link.session.channels] == [offers[99].id, offers[299].id]
    end.stop()


async def test_an_offer_of_a_malformed_host_is_reported_and_the_next_one_is_used(end: DiallingEnd) -> None:
    await asyncio.gather(*offer(end, HUB, host="x" * 64))
    [link] = end._links.values()
    assert link.session.status().why.startswith("SEMQ-4914")
    usable = ChannelRecord(id=OFFER.id, secret=OFFER.secret, host="127.0.0.1", port=OFFER.port)
    link.handle_packet(Packet(HUB, OWN, Function.DATAGRAMS, Primitive.INDICATION, [usable]))
    await asyncio.gather(*end._tasks)
    assert len(link.session.channels) == 1
    end.stop()


async def test_an_end_that_is_stopped_during_an_offer_opens_no_socket(end: DiallingEnd) -> None:
    tasks = offer(end, HUB)
    end.stop()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not end.port.is_open
