"""The connections that stores share: which store gets one, and which store closes one."""

import asyncio

import pytest

from semq.store.postgres.connections import SharedConnections


class RestableStore:
    """A store that rests when it is asked to, unless it is busy."""

    def __init__(self, places: SharedConnections, idle_since: float | None = None) -> None:
        self.places = places
        self.idle_since = idle_since

    async def rest(self) -> bool:
        self.places.leave(self)
        return True


async def test_a_store_waits_until_one_of_all_places_is_free() -> None:
    places = SharedConnections(2, 1.0, 60.0)
    busy = [RestableStore(places), RestableStore(places)]
    for one in busy:
        await places.enter(one)
    late = asyncio.ensure_future(places.enter(RestableStore(places)))
    await asyncio.sleep(0)
    assert not late.done()
    places.leave(busy[0])
    await late
    assert places.taken == 2


async def test_the_store_that_has_been_idle_longest_rests_first() -> None:
    places = SharedConnections(2, 1.0, 60.0)
    newer, older = RestableStore(places, 5.0), RestableStore(places, 3.0)
    for one in (newer, older):
        await places.enter(one)
    await places.enter(RestableStore(places))
    assert older not in places._taken
    assert newer in places._taken


async def test_a_store_that_becomes_idle_makes_room() -> None:
    places = SharedConnections(1, 1.0, 60.0)
    busy = RestableStore(places)
    await places.enter(busy)
    late = asyncio.ensure_future(places.enter(RestableStore(places)))
    await asyncio.sleep(0)
    assert not late.done()
    busy.idle_since = 1.0
    places.idle()
    await late


@pytest.mark.parametrize("again", [1, 2])
async def test_a_store_enters_only_once(again: int) -> None:
    places = SharedConnections(1, 1.0, 60.0)
    one = RestableStore(places)
    for _ in range(again):
        await places.enter(one)
    assert places.taken == 1
