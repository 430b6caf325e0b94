"""Turns of waiting documents: sources alternate, and within a source the highest priority goes first."""

from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace
from msgspec.structs import replace as changed

from semq.engine.ports import Submission
from semq.engine.receiver.handover import SEARCHES_MAX
from semq.store.unit import FirstInOrder, Unsent, Waiting
from semq.store.work import Work
from semq.umx_t.address import Address, parse_address
from semq.umx_t.envelope import Attributes, Data, Envelope
from semq.umx_t.locator import LK0, Pos
from tests.flows.trio import CLEAN, SETTINGS, Local, Trio

FLOOD, QUIET = Address(1, "77001"), Address(1, "88001")


def send(node: Local, *bodies: bytes, priority: int = 0, order_key: str = "") -> None:
    attributes = Attributes(priority=priority, order_key=order_key)
    node.engine.submit(
        [
            Submission(parse_address("56001"), attributes, body, node.accepted.append, node.refused.append)
            for body in bodies
        ]
    )


def document_of(source: Address, number: int, priority: int = 0, order_key: str = "", **facts: Any) -> Data:
    """Return document ``number`` of a source to 56001, with other fields of the envelope if given."""
    body = f"{source.id} {number}".encode()
    envelope = Envelope(
        source=source, target=Address(1, "56001"), lk0=LK0(1, source.id, 1, 1, 5, number + 1), sid=number,
        attributes=Attributes(priority=priority, order_key=order_key), digest=sha256(body).digest(),
    )  # fmt: skip
    return Data(replace(envelope, **facts), body)


def without_consumer() -> Trio:
    """Return a trio in which B's application does not consume."""
    trio = Trio()
    trio.b.app.places, trio.b.app.acks = 0, False
    return trio


def take(trio: Trio, count: int) -> list[bytes]:
    """Let B's application receive documents one after the other; return their bodies."""
    trio.b.app.places = 1
    taken: list[bytes] = []
    while len(taken) < count:
        trio.b.engine.handover.feed("")
        trio.b.store.run_all()
        (delivery,) = trio.b.app.held
        taken.append(delivery.payload)
        trio.b.app.held.clear()
        trio.b.engine.answers.finish([delivery.bref])
        trio.b.store.run_all()
    return taken


def take_by_acks(trio: Trio) -> list[bytes]:
    """Like ``take``, but ``feed`` is called once at the start, and then with each acknowledgement only."""
    trio.b.app.places = 1
    taken: list[bytes] = []
    trio.b.engine.handover.feed("")
    trio.b.store.run_all()
    while trio.b.app.held:
        delivery = trio.b.app.held.pop(0)
        taken.append(delivery.payload)
        trio.b.engine.answers.finish([delivery.bref])
        trio.b.engine.handover.feed("")
        trio.b.store.run_all()
    return taken


def test_a_flood_in_the_inbox_keeps_no_other_source_waiting() -> None:
    trio = without_consumer()
    trio.b.receive(*(document_of(FLOOD, n) for n in range(300)))
    trio.b.receive(*(document_of(QUIET, n) for n in range(5)))
    trio.b.store.run_all()
    first = take(trio, 10)
    assert [body for body in first if body.startswith(b"88001")] == [b"88001 %d" % n for n in range(5)]
    assert [body for body in first if body.startswith(b"77001")] == [b"77001 %d" % n for n in range(5)]


def test_a_flood_of_order_keys_keeps_no_other_source_waiting() -> None:
    """All documents of a node are of one source, whatever their order keys."""
    trio = without_consumer()
    trio.b.receive(*(document_of(FLOOD, n, order_key=f"k{n % 50}") for n in range(200)))
    trio.b.receive(*(document_of(QUIET, n) for n in range(5)))
    trio.b.store.run_all()
    first = take(trio, 12)
    assert sum(body.startswith(b"88001") for body in first) == 5


def test_the_inbox_delivers_by_priority_within_a_source_and_keeps_orders() -> None:
    trio = without_consumer()
    trio.b.receive(
        document_of(QUIET, 0, 0),
        document_of(QUIET, 1, 4),
        document_of(QUIET, 2, 9),
        document_of(QUIET, 3, 9),
        document_of(QUIET, 4, 200),
    )
    trio.b.receive(
        document_of(FLOOD, 0, 0, "k"),
        document_of(FLOOD, 1, 9, "k", prev=Pos(5, 0)),
        document_of(FLOOD, 2, 5, "k", prev=Pos(5, 1)),
    )
    trio.b.store.run_all()
    given = take(trio, 8)
    assert [body for body in given if body.startswith(b"88001")] == [b"88001 %d" % n for n in (2, 3, 4, 1, 0)]
    assert [body for body in given if body.startswith(b"77001")] == [b"77001 %d" % n for n in (0, 1, 2)]


def test_one_read_for_the_inbox_ends_with_the_document_that_reaches_the_limit_of_bytes() -> None:
    """The others stay in the store, and those of a lower priority do not overtake them."""
    trio = without_consumer()
    core = trio.b.engine.core
    core.settings = changed(core.settings, claim_bytes=20)
    trio.b.receive(*(document_of(QUIET, n, 4) for n in range(7)), document_of(QUIET, 7), document_of(QUIET, 8))
    trio.b.store.run_all()
    trio.b.app.places = 100
    trio.b.engine.handover.feed("")
    numbers = []
    while not trio.b.store.idle:
        trio.b.store.run()
        numbers.append(len(trio.b.app.payloads))
    assert list(dict.fromkeys(numbers)) == [3, 6, 9]
    assert trio.b.app.payloads == [b"88001 %d" % n for n in range(9)]


@pytest.mark.parametrize("ordered", range(1, 5))
@pytest.mark.parametrize("others", [1, 2, 3, 7])
@pytest.mark.parametrize("blocked", [0, 1, 3])
def test_an_order_key_without_a_deliverable_document_leaves_its_place_to_others(
    ordered: int, others: int, blocked: int
) -> None:
    """The consumer has one place; searches begin with its acknowledgements only."""
    trio = without_consumer()
    chain = [document_of(QUIET, n, order_key="k", prev=Pos(5, n - 1) if n else None) for n in range(ordered)]
    waiting = [document_of(QUIET, 50 + n, order_key=f"b{n}", prev=Pos(5, 900 + n)) for n in range(blocked)]
    trio.b.receive(*waiting, *chain, *(document_of(QUIET, 10 + n, n % 3) for n in range(others)))
    trio.b.store.run_all()
    assert len(take_by_acks(trio)) == ordered + others


def test_a_document_that_ends_during_a_search_lets_no_lower_priority_overtake() -> None:
    """The acknowledgement of the first document and the next search are in one unit, so the search still finds it."""
    trio = without_consumer()
    for body, priority, key in ((b"first", 6, "k"), (b"second", 6, ""), (b"third", 5, "")):
        send(trio.a, body, priority=priority, order_key=key)
    trio.settle()
    trio.later(5)  # receipts are noted, so an acknowledged document is deleted at once
    trio.b.app.places = 1
    trio.b.engine.handover.feed("")
    trio.b.store.run_all()
    first = trio.b.app.held.pop()
    assert first.payload == b"first"
    trio.b.engine.answers.finish([first.bref])
    trio.b.engine.handover.feed("")
    trio.b.store.begin()
    trio.b.store.commit()
    trio.b.store.deliver()
    trio.b.store.run_all()
    assert trio.b.app.held[0].payload == b"second"


def test_after_a_restart_the_inbox_has_all_sources_and_priorities() -> None:
    trio = without_consumer()
    trio.b.receive(*(document_of(FLOOD, n) for n in range(30)), document_of(QUIET, 0, 3), document_of(QUIET, 1, 7))
    trio.b.store.run_all()
    trio.b.crash()
    trio.b.store.run_all()
    assert set(take(trio, 4)) >= {b"88001 1", b"88001 0"}


def test_waiting_documents_are_sent_by_priority() -> None:
    trio = Trio(connected=False)
    for number, priority in enumerate((0, 5, 0, 9, 5)):
        send(trio.a, b"%d" % number, priority=priority)
        trio.settle()
    trio.connect(trio.b)
    trio.connect(trio.a)
    trio.settle()
    assert trio.a.up is not None
    assert [bytes(frame.body) for frame in trio.a.up.sent if isinstance(frame, Data)] == [b"3", b"1", b"4", b"0", b"2"]
    trio.later(60)
    assert trio.a.rows == trio.b.rows == CLEAN


def test_a_document_of_high_priority_does_not_overtake_its_predecessor() -> None:
    trio = Trio(connected=False)
    send(trio.a, *(b"%d" % n for n in range(5)))
    send(trio.a, b"first", order_key="k")
    send(trio.a, b"second", order_key="k", priority=9)
    trio.settle()
    trio.connect(trio.b)
    trio.connect(trio.a)
    trio.later(60)
    given = trio.b.app.payloads
    assert given.index(b"first") < given.index(b"second")
    assert sorted(given) == sorted([b"0", b"1", b"2", b"3", b"4", b"first", b"second"])
    assert trio.a.rows == trio.b.rows == CLEAN


def test_an_urgent_document_beyond_the_window_does_not_stop_earlier_ones() -> None:
    trio = Trio(changed(SETTINGS, window=3), connected=False)
    send(trio.a, *(b"%d" % n for n in range(6)))
    send(trio.a, b"urgent", priority=9)
    trio.settle()
    trio.connect(trio.b)
    trio.connect(trio.a)
    trio.later(120)
    assert sorted(trio.b.app.payloads) == [b"0", b"1", b"2", b"3", b"4", b"5", b"urgent"]
    assert trio.a.rows == trio.b.rows == CLEAN


def test_the_hub_s_backlog_leaves_by_turns_and_priority() -> None:
    trio = Trio()
    flood, quiet = Local(trio, FLOOD.id), Local(trio, QUIET.id)
    trio.nodes += [flood, quiet]
    trio.directory.addresses += [FLOOD, QUIET]
    for node in (flood, quiet):
        trio.connect(node)
    trio.settle()
    trio.cut(trio.b)
    send(flood, *(b"flood %d" % n for n in range(100)))
    trio.settle()
    send(quiet, b"quiet 0")
    send(quiet, b"quiet 9", priority=9)
    trio.settle()
    assert trio.held == 102
    trio.connect(trio.b)
    assert trio.b.down is not None
    trio.b.down.room = 4
    trio.settle()
    sent = [bytes(frame.body) for frame in trio.b.down.sent if isinstance(frame, Data)]
    assert sent[:2] == [b"flood 0", b"quiet 9"]
    assert sent.index(b"quiet 0") <= 5
    trio.crash_hub()
    for node in trio.nodes:
        trio.connect(node)
    trio.later(120)
    assert len(set(trio.b.app.payloads)) == 102
    assert trio.held == 0


def counted_searches(trio: Trio) -> list[Work]:
    """Return a list that collects the work in which B searches for waiting rows."""
    seen: list[Work] = []
    post = trio.b.engine.core.post

    def counted(work: Work, **more: Any) -> None:
        if any(isinstance(query, Waiting | Unsent | FirstInOrder) for query in work.needs.queries):
            seen.append(work)
        post(work, **more)

    trio.b.engine.core.post = counted  # type: ignore[method-assign]
    return seen


def test_orders_that_wait_for_missing_documents_cost_nothing_while_others_continue() -> None:
    trio = Trio()
    blocked = 300
    trio.b.receive(
        *(document_of(FLOOD, 10_000 + n, order_key=f"k{n}", prev=Pos(5, n), floor=0) for n in range(blocked)),
    )
    trio.settle()
    assert len(trio.b.engine.handover.orders) == blocked
    seen = counted_searches(trio)
    for n in range(50):
        trio.b.receive(document_of(QUIET, n))
        trio.settle()
    assert len(trio.b.app.payloads) == 50
    assert len(seen) <= 50 * 4
    # The floor passes the predecessors of ten documents.
    seen.clear()
    trio.b.engine.handover.note_floor(*floor_of(trio, 10))
    trio.settle()
    assert len(seen) <= 10 * 3


def floor_of(trio: Trio, floor: int) -> Any:
    """Return the arguments of ``Handover.note_floor`` for the stream of FLOOD."""
    (key,) = (key for key in trio.b.store.tables.in_streams if key.store.id == FLOOD.id)
    return key, floor, None


def test_searches_of_one_source_are_bounded_so_that_others_do_not_wait_for_them() -> None:
    """A partner sends documents of many order keys whose predecessors are missing, four of each key."""
    trio = Trio()
    seen = counted_searches(trio)
    keys = 3 * SEARCHES_MAX
    flood = [
        document_of(
            FLOOD,
            10_000 + 4 * key + n,
            order_key=f"k{key}",
            prev=Pos(5, 10_000 + 4 * key + n - 1 if n else key),
            floor=0,
        )
        for key in range(keys)
        for n in range(4)
    ]
    trio.b.receive(*flood)
    under_way = len(seen)
    assert under_way <= SEARCHES_MAX + 1
    trio.b.receive(document_of(QUIET, 0, order_key="quiet"))
    for _ in range(4):
        trio.b.store.run()
    assert trio.b.app.payloads == [f"{QUIET.id} 0".encode()]
    trio.settle()
    assert len(trio.b.engine.handover.orders) == keys  # the quiet one has ended
    # Later documents of a blocked order cause no search, unless one is under way.
    assert len(seen) <= 2 * (keys + SEARCHES_MAX) + 10
    assert not trio.b.engine.handover._postponed
    assert not trio.b.engine.handover.is_searching
    trio.b.receive(*(document_of(FLOOD, key, order_key=f"k{key}") for key in range(keys)))
    trio.later(1)
    assert len(trio.b.app.deliveries) == 5 * keys + 1
    given = [bytes(delivery.payload) for delivery in trio.b.app.deliveries]
    assert len(set(given)) == len(given)
