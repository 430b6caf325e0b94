"""The reader of status grids: a text becomes a table of rules.

A grid has a heading (its name, then a column for each state) and a line for each kind of event. A cell reads
``next state:deed``; a deed is an action of the engine. A dot means "unchanged", an exclamation mark "impossible". An
unknown word raises KeyError at import.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Generic, TypeVar

from msgspec import Struct

from semq.umx_t.errors import ImpossibleEvent

State = TypeVar("State", bound=Enum)
Event = TypeVar("Event", bound=Enum)
Deed = TypeVar("Deed", bound=Enum)


class GridRule(Struct, Generic[State, Deed], frozen=True):
    """One cell: the state after the event, and the deed, if any."""

    after: State
    deed: Deed | None


class Grid(Generic[State, Event, Deed]):
    """The rules for one kind of row, looked up by state and event."""

    def __init__(self, text: str, states: type[State], events: type[Event], deeds: type[Deed]) -> None:
        self.text = text
        heading, *lines = [line.split() for line in text.strip().splitlines()]
        self.name, *names = heading
        self.columns = tuple(states[name] for name in names)
        self.rows = tuple(events[line[0]] for line in lines)
        self._rules: dict[tuple[State, Event], GridRule[State, Deed] | None] = {}
        for event, (_, *cells) in zip(self.rows, lines, strict=True):
            for state, cell in zip(self.columns, cells, strict=True):
                self._rules[state, event] = None if cell == "!" else _read(cell, state, states, deeds)

    def step(self, state: State, event: Event) -> GridRule[State, Deed]:
        """Return the rule for this state and event. Raises ImpossibleEvent if the grid has an exclamation mark."""
        rule = self._rules[state, event]
        if rule is None:
            raise ImpossibleEvent(grid=self.name, state=state.name, event=event.name)
        return rule

    def cells(self) -> Iterator[tuple[State, Event]]:
        """Return the keys of all possible cells."""
        return (key for key, rule in self._rules.items() if rule is not None)

    def rules(self) -> Mapping[tuple[State, Event], GridRule[State, Deed] | None]:
        """Return the whole table, read-only."""
        return self._rules


def _read(cell: str, state: State, states: type[State], deeds: type[Deed]) -> GridRule[State, Deed]:
    after, _, deed = cell.partition(":")
    return GridRule(state if after == "." else states[after], deeds[deed] if deed else None)
