"""The engine of a node, as its other parts see it: after a loss of the store, another engine takes its place."""

from typing import Generic, Protocol, TypeVar

from semq.engine.core import Core
from semq.store.work import Work


class CoreEngine(Protocol):
    """An engine with its core."""

    @property
    def core(self) -> Core:
        """The state of the engine."""


class NodeEngine(CoreEngine, Protocol):
    """The engine of a node, with work that becomes due."""

    def tick(self) -> None:
        """Do the work that is due."""

    @property
    def next_due(self) -> float | None:
        """The monotonic time of the next work; None if there is none."""

    def flush(self) -> None:
        """Send the gathered records."""


E_co = TypeVar("E_co", bound=CoreEngine, covariant=True)


class EngineHandle(Generic[E_co]):
    """The present engine of a node. Parts that survive a loss of the store read ``current`` at each use."""

    current: E_co  #: set before the first use of a part
    starts = 0  #: engines so far

    def post(self, work: Work, later: bool = False) -> None:
        """Post work to the store of the present engine."""
        self.current.core.post(work, later=later)
