"""Read a status grid, written as text, into a table of rules.

A grid has a heading (its name, then a column for each state of a row) and a line for each kind of event. A cell reads
``next state:action``; a dot means "unchanged", an exclamation mark "impossible". Every cell is decided; an unknown word
fails at import.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from semq.umx_t.errors import ImpossibleNews

S = TypeVar("S", bound=Enum)
N = TypeVar("N", bound=Enum)
D = TypeVar("D", bound=Enum)


@dataclass(frozen=True, slots=True)
class GridRule(Generic[S, D]):
    """One cell: the state after the event, and the action, if any."""

    after: S
    deed: D | None


class Grid(Generic[S, N, D]):
    """The rules for one kind of row, looked up by state and event."""

    def __init__(self, text: str, standings: type[S], news: type[N], deeds: type[D]) -> None:
        self.text = text
        lines = [line.split() for line in text.strip().splitlines()]
        self.name, *names = lines[0]
        self.columns = tuple(standings[name] for name in names)
        self.rows = tuple(news[line[0]] for line in lines[1:])
        self._rules: dict[tuple[S, N], GridRule[S, D] | None] = {}
        for on, line in zip(self.rows, lines[1:], strict=True):
            for standing, cell in zip(self.columns, line[1:], strict=True):
                self._rules[standing, on] = None if cell == "!" else _read(cell, standing, standings, deeds)

    def step(self, standing: S, on: N) -> GridRule[S, D]:
        """Return the rule for this state and event; raises ImpossibleNews if the grid marks the cell as impossible."""
        rule = self._rules[standing, on]
        if rule is None:
            raise ImpossibleNews(grid=self.name, standing=standing.name, news=on.name)
        return rule

    def cells(self) -> Iterator[tuple[S, N]]:
        """Return the keys of all possible cells, for tests and for the simulator's coverage report."""
        return (key for key, rule in self._rules.items() if rule is not None)

    def rules(self) -> Mapping[tuple[S, N], GridRule[S, D] | None]:
        """Return the whole table, read-only."""
        return self._rules


def _read(cell: str, standing: S, standings: type[S], deeds: type[D]) -> GridRule[S, D]:
    goal, _, deed = cell.partition(":")
    return GridRule(standing if goal == "." else standings[goal], deeds[deed] if deed else None)
