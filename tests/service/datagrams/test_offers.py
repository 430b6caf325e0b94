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

OWN, HUB, PARTNER = map(parse_address, ("1.10008", "2.hub", "1.56001"))
OFFER = ChannelRecord(id="00" * 8, secret="11" * 32, port=9)


@pytest.fixture
async def end() -> DiallingEnd:
    return DiallingEnd(DatagramsSection(), OWN, SystemClock())


def offer(end: DiallingEnd, *peers: Any) -> "list[asyncio.Task[None]]":
    """Let each peer offer a channel on a new link; return the tasks that accept the offers."""
    for peer in peers:
        link = end.begin(peer, "127.0.0.1", lambda _: None, lambda _: True)
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


async def test_an_end_that_is_stopped_during_an_offer_opens_no_socket(end: DiallingEnd) -> None:
    tasks = offer(end, HUB)
    end.stop()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not end.port.is_open
