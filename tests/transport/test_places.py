"""Who gets a place of a full port, and who loses one."""

import logging

import pytest

from semq.transport.places import PlaceLimits, Places


class Socket:
    """A socket that waits for its client since a time; None: it does not wait."""

    def __init__(self, waits_since: float | None) -> None:
        self.waits_since = waits_since
        self.is_closed = False

    def displace(self) -> None:
        self.is_closed = True


def filled(places: Places, *rows: tuple[str, float | None]) -> list[Socket]:
    """Return sockets that take places, by address and time of the wait."""
    sockets = [Socket(waits_since) for _, waits_since in rows]
    for socket, (address, _) in zip(sockets, rows, strict=True):
        assert places.have_room(address)
        places.take(socket, address)
    return sockets


async def test_the_longest_silent_socket_of_the_network_with_the_most_silent_ones_loses_its_place() -> None:
    places = Places(lambda: PlaceLimits(5, 5))
    sockets = filled(places, ("a", 1.0), ("b", 3.0), ("b", 2.0), ("b", None), ("c", None))
    assert places.have_room("d")
    assert [socket.is_closed for socket in sockets] == [False, False, True, False, False]
    assert (len(places), places.displaced, places.refused) == (4, 1, 0)


async def test_addresses_of_one_ipv6_network_are_one_client() -> None:
    places = Places(lambda: PlaceLimits(5, 2))
    filled(places, ("2001:db8::1", None), ("2001:db8::2", None))
    assert not places.have_room("2001:db8::3")
    assert places.have_room("2001:db8:0:1::1")


async def test_if_all_are_busy_some_more_are_accepted_for_an_answer_and_others_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    places = Places(lambda: PlaceLimits(2, 5, surplus=1))
    first, *_ = filled(places, ("a", None), ("b", None), ("c", None))
    with caplog.at_level(logging.WARNING):
        assert [places.have_room("d") for _ in range(100)] == [False] * 100
    assert places.refused == 100
    assert len(caplog.messages) == 1  # a second has one line
    places.leave(first)
    places.leave(first)  # without an effect
    assert places.have_room("d")
