"""Rules of PROTOCOL.md section 7, each removed from the real engine by a patch: the campaign must notice."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Mutation:
    """One rule, and how to take it away."""

    rule: str
    what: str
    seeds: int  #: it is caught within so many seeds
    patch: Callable[[], Callable[[], None]]  #: takes the rule away; returns what puts it back

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The engine without the rule."""
        undo = self.patch()
        try:
            yield
        finally:
            undo()


MUTATIONS: dict[str, Mutation] = {}
