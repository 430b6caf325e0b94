"""Units decided twice: documents, ledger lines and rows are the same as if each unit was decided once.

A unit is decided again after an error of a piece of work, or of Postgres.
"""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import semq.engine
from semq.engine.hub.copy_acts import ActOnCopies
from semq.engine.receiver.answers import ActReport
from semq.engine.sender.repetition import RepeatableDocument, read_repeatable, repetition
from semq.engine.sender.scheduling import release_due, release_early
from semq.store.work import Work
from semq.umx_t.address import Address, NodeType
from tests.flows.sealed import SealedWorld, keys_of, send
from tests.flows.trio import Trio
from tests.memory_store.store import CommitFault, MemoryStore

ENGINE = Path(semq.engine.__file__).parent
B = Address(NodeType.LOCAL, "56001")


class TwiceStore(MemoryStore):
    """A store that rolls back every unit once, and decides it again."""

    kinds: set[str]  #: kinds of work that were decided twice

    def begin(self) -> None:
        super().begin()
        self.kinds |= {kind(piece) for piece in self._open if not piece.is_wait}

    def commit(self, fault: CommitFault = CommitFault.NONE) -> None:
        super().commit(CommitFault.REDONE if fault is CommitFault.NONE else fault)


def kind(piece: Work) -> str:
    """Return the name of the function that made a piece of work."""
    make: Any = piece._make
    return str(make.func.__name__)


@contextmanager
def twice(kinds: set[str]) -> Iterator[None]:
    """Let the stores of the flows decide every unit twice; collect the kinds of work in ``kinds``."""
    patch = pytest.MonkeyPatch()
    patch.setattr("tests.flows.trio.MemoryStore", TwiceStore)
    patch.setattr(TwiceStore, "kinds", kinds, raising=False)
    try:
        yield
    finally:
        patch.undo()


def fail(error: Exception) -> None:
    raise error


def online(trio: Trio) -> None:
    """Documents of all classes, in order and together, to an online partner and to the node itself."""
    trio.a.send(b"1", b"2", b"3")
    trio.a.send(b"o1", order_key="k")
    trio.a.send(b"o2", order_key="k")
    for save_fwd in (1, 2):
        trio.a.send(b"c", save_fwd=save_fwd, ack2=False)
    trio.a.send(b"home", to="10008")


def stored(trio: Trio) -> None:
    """Documents to an offline partner: inquired about, cancelled, sent again, and refused by the hub's operator."""
    trio.cut(trio.b)
    trio.a.send(b"s1", b"s2", b"s3", b"s4")
    trio.settle()
    trio.later(60)
    first, second = [accepted.lk0 for accepted in trio.a.accepted[-4:-2]]
    acts = trio.a.engine.acts
    acts.cancel(second, lambda: None, fail)
    acts.resend(first, "once more", lambda: None, fail)
    copies = sorted(trio.hub_store.tables.outbound)
    act = ActOnCopies("ops", "test", lambda counts: None, fail)
    trio.settle()
    trio.hub.copy_acts.resend(copies[:1], act)
    trio.hub.copy_acts.refuse(copies[2:3], act)
    trio.settle()
    trio.connect(trio.b)
    trio.later(60)


def parked(trio: Trio) -> None:
    """Documents that applications refuse, return, or answer by SQL; acts of operators on parked documents."""
    trio.b.app.acks = False
    trio.a.send(b"p1", b"p2", b"p3")
    trio.settle()
    brefs = [delivery.bref for delivery in trio.b.app.held]
    trio.b.app.held.clear()
    report, answers = ActReport(lambda count: None, fail), trio.b.engine.answers
    answers.fail(brefs[:2], "cannot be read")
    answers.give_back(brefs[2:])
    trio.settle()
    answers.requeue(brefs[:1], "mended", report)
    answers.remove(brefs[1:2], "not wanted", report)
    answers.when_committed(report)
    trio.a.send(b"by SQL", b"rejected by SQL")
    trio.settle()
    by_sql = [delivery.bref for delivery in trio.b.app.held][-2:]
    trio.b.app.held.clear()
    trio.b.store.tables.done.update({by_sql[0]: None, by_sql[1]: "not this one"})
    trio.b.engine.completions.poll()
    trio.b.app.acks = True
    trio.settle()
    trio.later(30)


def link_down(trio: Trio) -> None:
    """Documents that wait for the link: held, released, expired and repeated; then lost packets, and crashes."""
    trio.cut(trio.a)
    now_ms = int(trio.time.wall().timestamp() * 1000)
    trio.a.send(b"d1", b"d2")
    trio.a.send(b"late", b"late too", expires_at=now_ms + 5_000)
    trio.settle()
    lk0, acts = trio.a.accepted[-4].lk0, trio.a.engine.acts
    acts.hold(lk0, True, "wait", lambda: None, fail)
    trio.settle()
    acts.hold(lk0, False, "go", lambda: None, fail)
    trio.later(20)
    trio.connect(trio.a)
    trio.lose = lambda wire, frame: wire is trio.b.up
    trio.later(40)
    trio.lose = lambda wire, frame: False
    trio.crash_hub()
    trio.connect(trio.a)
    trio.connect(trio.b)
    trio.later(400)
    ended = [row.lk0 for row in trio.a.store.tables.outbound.values() if row.outcome is not None]

    def repeat(old: RepeatableDocument) -> None:
        trio.a.engine.submit([repetition(old, "still wanted", trio.a.engine.core.now_ms())])

    trio.a.engine.core.post(read_repeatable(ended[0], repeat), failed=fail)
    for lk0 in ended[1:]:
        acts.remove(lk0, "seen", lambda: None, fail)
    trio.b.crash()
    trio.connect(trio.b)
    trio.hub.custody.stores.retire((1, 9), "ops", "the disk is gone", lambda was: None, fail)
    trio.later(60)


def sealed(trio: Trio) -> None:
    """Sealed documents whose receiver has replaced its key."""
    assert isinstance(trio, SealedWorld)
    trio.cut(trio.b)
    send(trio, b"first")
    send(trio, b"second", order_key="k")
    trio.settle()
    keys_of(trio.b).own_keys = trio.certified_keys(trio.b.address, "B2")
    trio.connect(trio.b)
    trio.later(5)
    assert trio.b.app.payloads == [b"first", b"second"]


def scheduled(trio: Trio) -> None:
    """Scheduled documents: one released by an operator, one by the clock."""
    now_ms = int(trio.time.wall().timestamp() * 1000)
    for body, not_before in ((b"early", now_ms + 60_000), (b"due", now_ms + 5_000)):
        trio.a.send(body, not_before=not_before)
    trio.settle()
    core, (early, _) = trio.a.engine.core, trio.a.accepted[-2:]
    core.post(release_early(early.lk0.object_id, lambda: None))
    trio.later(10)
    core.post(release_due(core, lambda count, following: None))
    trio.settle()


def not_consumed(trio: Trio) -> None:
    """Documents in order, of which the receiver's applications take none for a while after its start."""
    places, trio.b.app.places = trio.b.app.places, 0
    trio.b.crash()
    trio.connect(trio.b)
    trio.a.send(b"n1", b"n2", order_key="k")
    trio.settle()
    trio.later(60)
    trio.b.app.places = places
    trio.b.engine.handover.feed("")


SCENES: tuple[Callable[[Trio], None], ...] = (online, stored, parked, link_down, sealed, scheduled, not_consumed)


def play(scene: Callable[[Trio], None]) -> dict[str, Any]:
    trio = SealedWorld() if scene is sealed else Trio()
    scene(trio)
    trio.settle()
    trio.later(200)
    return {
        "documents": [sorted(node.app.payloads) for node in trio.nodes],
        "events": [
            sorted((event.kind, event.outcome) for event in node.reported.events if event.lk0) for node in trio.nodes
        ],
        "lines": [
            sorted((line.side.name, line.event.name) for line in store.tables.ledger)
            for store in (trio.hub_store, trio.a.store, trio.b.store)
        ],
        "rows": [trio.a.rows, trio.b.rows, trio.held],
        "refused": [[type(error) for error in node.refused] for node in trio.nodes],
    }


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: str(scene.__name__))
def test_the_result_is_the_same_when_every_unit_is_decided_twice(scene: Callable[[Trio], None]) -> None:
    once = play(scene)
    with twice(set()):
        again = play(scene)
    for result in (once, again):  # events are prepared at each decision, so repeats are removed
        result["events"] = [sorted(set(events)) for events in result["events"]]
    assert again == once


def test_every_kind_of_work_of_the_engine_was_decided_twice() -> None:
    kinds: set[str] = set()
    with twice(kinds):
        for scene in SCENES:
            play(scene)
    functions = {
        node.name
        for path in ENGINE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(decorator, ast.Name) and decorator.id == "work" for decorator in node.decorator_list)
    }
    assert not functions - kinds
