"""The queries Waiting, Unsent and InboxTracks return rows by track (source and priority), within limits."""

from semq.store.unit import InboxTracks, Unsent, Waiting
from semq.umx_t.address import Address
from tests.memory_store.store import MemoryStore
from tests.memory_store.test_store import ids, loaded, own, put, query_rows, received, relayed


def test_tracks_are_found_by_source_and_priority() -> None:
    store = MemoryStore()
    source = received(1).source
    put(store, received(1, priority=5), received(2), received(3, target=Address(1, "a", "buyer"), priority=9))
    assert loaded(store, queries={InboxTracks("")}).found == {InboxTracks(""): [(source, 0), (source, 5)]}
    assert ids(query_rows(store, Waiting("", source, 5, 0, 9))) == [1]
    put(store, own(1, priority=3), own(2), relayed(3))
    assert ids(query_rows(store, Unsent("1.b", 0, 9))) == [2]
    assert ids(query_rows(store, Unsent("1.b", 0, 9, priority=3))) == [1]
    held = relayed(3)
    assert ids(query_rows(store, Unsent(held.dest, 0, 9, source=held.source))) == [3]
    put(store, own(4))
    assert store.recover(7).tracks == {("1.b", "", 0): 2, ("1.b", "", 3): 1, (held.dest, held.source, 0): 1}


def test_a_result_ends_with_the_row_that_reaches_its_limit_of_bytes() -> None:
    store = MemoryStore()
    put(store, *(received(bref, size=7) for bref in (1, 2, 3)))
    for limit, bytes_max, found in ((9, 21, 3), (9, 22, 3), (9, 8, 2), (9, 7, 1), (2, 22, 2)):
        query = Waiting("", received(1).source, 0, 0, limit, bytes_max)
        rows = query_rows(store, query)
        assert ids(rows) == [1, 2, 3][:found]
        assert query.is_cut(rows) is (bytes_max != 22 or limit == 2)
