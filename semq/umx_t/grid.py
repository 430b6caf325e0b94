"""How a status grid, written as text, becomes a table of rules.

A grid has a heading (its name, then a column for each standing of a row) and a line for each kind of news. A cell reads
``next standing:what we do``; a dot stays put, a bang cannot be true. Every cell is decided; any misspelt word fails at
import.
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
class Rule(Generic[S, D]):
    """One cell: the standing afterwards and the deed, if any."""

    after: S
    deed: D | None


class Grid(Generic[S, N, D]):
    """The rules of one kind of row, looked up by standing and news."""

    def __init__(self, text: str, standings: type[S], news: type[N], deeds: type[D]) -> None:
        self.text = text
        lines = [line.split() for line in text.strip().splitlines()]
        self.name, *names = lines[0]
        self.columns = tuple(standings[name] for name in names)
        self.rows = tuple(news[line[0]] for line in lines[1:])
        self._rules: dict[tuple[S, N], Rule[S, D] | None] = {}
        for on, line in zip(self.rows, lines[1:], strict=True):
            for standing, cell in zip(self.columns, line[1:], strict=True):
                self._rules[standing, on] = None if cell == "!" else _read(cell, standing, standings, deeds)

    def step(self, standing: S, on: N) -> Rule[S, D]:
        """What follows from the news; raises ImpossibleNews where the grid says that it cannot be true."""
        rule = self._rules[standing, on]
        if rule is None:
            raise ImpossibleNews(grid=self.name, standing=standing.name, news=on.name)
        return rule

    def cells(self) -> Iterator[tuple[S, N]]:
        """Every decided cell, for tests and for the coverage that the simulator reports."""
        return (key for key, rule in self._rules.items() if rule is not None)

    def rules(self) -> Mapping[tuple[S, N], Rule[S, D] | None]:
        """The whole table, read only."""
        return self._rules


def _read(cell: str, standing: S, standings: type[S], deeds: type[D]) -> Rule[S, D]:
    goal, _, deed = cell.partition(":")
    return Rule(standing if goal == "." else standings[goal], deeds[deed] if deed else None)
