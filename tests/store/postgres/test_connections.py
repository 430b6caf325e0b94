"""Connections that stores share: when a store gets a connection, and which store rests for it."""

import asyncio

from semq.store.postgres.connections import SharedConnections


class RestableStore:
    """A store that rests when asked. If ``idle_since`` is None, it is busy and must not be asked."""

    def __init__(self, connections: SharedConnections, idle_since: float | None = None) -> None:
        self.connections = connections
        self.idle_since = idle_since

    async def rest(self) -> bool:
        self.connections.leave(self)
        return True


async def test_a_store_waits_until_a_connection_is_free() -> None:
    connections = SharedConnections(2, 1.0, 60.0)
    busy = [RestableStore(connections), RestableStore(connections)]
    for store in busy:
        await connections.enter(store)
    late = asyncio.ensure_future(connections.enter(RestableStore(connections)))
    await asyncio.sleep(0)
    assert not late.done()
    connections.leave(busy[0])
    await late
    assert connections.taken == 2


async def test_the_store_that_has_been_idle_longest_rests_first() -> None:
    connections = SharedConnections(2, 1.0, 60.0)
    newer, older = RestableStore(connections, 5.0), RestableStore(connections, 3.0)
    for store in (newer, older):
        await connections.enter(store)
    await connections.enter(RestableStore(connections))
    assert older not in connections._taken
    assert newer in connections._taken


async def test_a_store_that_becomes_idle_gives_its_connection_to_a_waiting_store() -> None:
    connections = SharedConnections(1, 1.0, 60.0)
    busy = RestableStore(connections)
    await connections.enter(busy)
    late = asyncio.ensure_future(connections.enter(RestableStore(connections)))
    await asyncio.sleep(0)
    assert not late.done()
    busy.idle_since = 1.0
    connections.note_idle()
    await late


async def test_a_store_that_enters_again_keeps_its_connection() -> None:
    connections = SharedConnections(1, 1.0, 60.0)
    store = RestableStore(connections)
    for _ in range(2):
        await connections.enter(store)
    assert connections.taken == 1
