"""A piece of work for one transaction: a generator with needs, decisions, and actions after the commit.

    @work
    def release(store: Copies, rows: list[int]) -> Steps:
        unit = yield Needs(outbound=set(rows))      # the store loads these rows
        released = [...]                            # decide, and stage the changes in ``unit``
        yield COMMITTED                             # the store writes and commits
        store.released(released)                    # only now: frames, confirms, events

After a conflict, or if other work of the unit failed, the store decides the unit again, with new generators. Actions
after the commit use values that the work kept while deciding, because later work of the unit may have changed the rows.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from typing import Final, ParamSpec, Protocol

from semq.store.rows import LedgerLine
from semq.store.unit import Needs, Unit

P = ParamSpec("P")
Steps = Generator[Needs | None, Unit, None]
Failed = Callable[[Exception], None]
NO_NEEDS = Needs()
LATER_S = 0.1  # longest wait of work posted ``later``
SENT_BODIES, RECEIVED_BODIES = "tb_0031_body", "tb_0030_body"
COMMITTED: Final = None  #: yielded by work that has decided; it resumes after the commit


class Work:
    """A generator function with arguments, run once per attempt at a unit."""

    __slots__ = ("_is_fresh", "_make", "_steps", "ahead", "divide", "is_part", "needs", "on_failure")
    is_wait = False  #: whether it only waits for the commit of earlier work

    def __init__(self, make: Callable[[], Steps], on_failure: Failed | None = None) -> None:
        self._make = make
        self.on_failure = on_failure
        #: Tables and payloads of large bodies that the store may write first; other work may then overtake this work.
        self.ahead: Sequence[tuple[str, bytes]] = ()
        #: Returns parts that the store does instead, in the place of this work, if Postgres refuses a row of it.
        self.divide: Callable[[], Sequence[Work]] | None = None
        self.is_part = False  #: whether it is joined to other work, so that none of its changes may be made without it
        self._begin()

    def _begin(self) -> None:
        self._steps = self._make()
        needs = next(self._steps)
        assert needs is not None, "work first yields its needs"
        self.needs = needs
        self._is_fresh = True

    def renew(self) -> None:
        """Begin a new attempt if the present one has decided."""
        if not self._is_fresh:
            self._begin()

    def decide(self, unit: Unit) -> None:
        """Decide and stage the changes. If this raises an error, only this work fails."""
        self._is_fresh = False
        try:
            self._steps.send(unit)
        except StopIteration:
            return  # nothing follows the commit

    def finish(self) -> None:
        """Run the actions after the commit."""
        self.on_failure = None  # it may hold this work, whose cycle would keep bodies in memory
        for _ in self._steps:
            raise AssertionError("work yields twice: its needs, and COMMITTED")

    def abandon(self, error: Exception) -> None:
        """End the work without actions: the decision or the commit failed, or the result is unknown."""
        self._steps.close()
        failed, self.on_failure = self.on_failure, None
        if failed is not None:
            failed(error)


def work(steps: Callable[P, Steps]) -> Callable[P, Work]:
    """Decorate a generator function: calls return a ``Work``."""

    @wraps(steps)
    def make(*args: P.args, **kwargs: P.kwargs) -> Work:
        return Work(partial(steps, *args, **kwargs))

    return make


class _Wait(Work):
    """Work without a decision. Every frame of a link has one, so it needs no generator."""

    __slots__ = ("_then",)
    is_wait = True

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self.on_failure = self.divide = None
        self.ahead = ()
        self.is_part = False
        self.needs = NO_NEEDS

    def renew(self) -> None:
        pass

    def decide(self, unit: Unit) -> None:
        pass

    def finish(self) -> None:
        self.on_failure = None
        self._then()

    def abandon(self, error: Exception) -> None:
        failed, self.on_failure = self.on_failure, None
        if failed is not None:
            failed(error)


def after_commit(then: Callable[[], None]) -> Work:
    """Return work that calls ``then`` when all work posted before it is committed."""
    return _Wait(then)


def joined(works: Sequence[Work]) -> Work:
    """Return work that does several pieces as one: if one of them fails, all do."""
    whole = _joined(works)
    whole.ahead = [ahead for piece in works for ahead in piece.ahead]
    whole.on_failure = partial(abandon_all, works)
    return whole


def abandon_all(works: Sequence[Work], error: Exception) -> None:
    """Abandon each piece with this error, also if the action of another one fails."""
    with ExitStack() as rest:
        for piece in reversed(works):
            rest.callback(piece.abandon, error)


@work
def _joined(works: Sequence[Work]) -> Steps:
    unit = yield begin_attempts(works)
    for piece in works:
        piece.decide(unit)
    yield COMMITTED
    with ExitStack() as rest:  # calls all, also if one of them fails
        for piece in reversed(works):
            rest.callback(piece.finish)


def begin_attempts(works: Sequence[Work]) -> Needs:
    """Begin an attempt at pieces of work; return all their needs."""
    for piece in works:
        piece.renew()
    if len(works) == 1:
        return works[0].needs
    together = Needs()
    for piece in works:
        if piece.needs is not NO_NEEDS:
            together.add(piece.needs)
    return together


class JoinedPosts:
    """The work that is posted in a block, joined to one piece."""

    def __init__(self, post: Callable[[Work], None]) -> None:
        """``post``: of the store, which first calls ``take``."""
        self._post = post
        self._works: list[Work] | None = None  # None outside of a block

    def take(self, work: Work) -> bool:
        """Take a piece of work that is posted in a block; return False outside of a block."""
        if self._works is None:
            return False
        work.is_part = True
        self._works.append(work)
        return True

    @contextmanager
    def as_one(self) -> Iterator[None]:
        """Join the work that is posted in the block, which must not wait: all of it is committed, or nothing.

        If one piece fails, or the block raises an error, all pieces are abandoned with this error.
        """
        assert self._works is None, "blocks are not nested"
        works = self._works = []
        try:
            yield
        except Exception as error:
            self._works = None
            abandon_all(works, error)
            raise
        self._works = None
        self._post(joined(works))


class WorkStore(Protocol):
    """The store to which an engine posts work: ``PostgresStore``, or the store of the simulator.

    ``unwritten``: lines of the ledger that could not be written while the store was away. The next engine writes them.
    """

    unwritten: list[LedgerLine]

    def post(self, work: Work, *, later: bool = False) -> None:
        """Queue a piece of work. Work decides in the order of the calls, but work with ``ahead`` may be overtaken.

        ``later``: the work may wait up to LATER_S for more work.
        """
