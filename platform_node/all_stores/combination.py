"""Combination of the answers of several stores. Pure: no node, no carrier.

A place in a list that goes from store to store is one number, so that it fits into the arguments of operations that
have a place in one store: the position of the store among the hub's, and the place in it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from semq.engine.hub.carrier import StoreName
from semq.service.errors import BadArguments

PLACE_BITS = 56  # bits of a number in one store: its openings, and 40 bits
STORES_MAX = (1 << (63 - PLACE_BITS)) - 1
Rows = list[dict[str, Any]]
Answers = Sequence[tuple[StoreName, Any]]
Combine = Callable[[Answers, Mapping[str, Any]], Any]  #: answers and arguments


class StorePlace(NamedTuple):
    """A place in a list that goes from store to store."""

    store: int  #: its position among the stores of the hub
    number: int  #: the place in it; 0: its beginning


def place_in(number: int) -> StorePlace:
    """Return the place that a number means."""
    return StorePlace(number >> PLACE_BITS, number & ((1 << PLACE_BITS) - 1))


def number_of(place: StorePlace) -> int:
    """Return a place as one number. In the first store it is the place in that store. Raises BadArguments."""
    if place.number >> PLACE_BITS or place.store > STORES_MAX:
        raise BadArguments("This list is too long for all stores at once: use a filter.", store=place.store)
    return (place.store << PLACE_BITS) | place.number


def store_text(store: StoreName) -> str:
    """Return the name of a store as people write it."""
    return f"{store[0]}.{store[1]}"


def named(store: StoreName, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its store."""
    return {**row, "store": store_text(store)}


def rows(answers: Answers, arguments: Mapping[str, Any]) -> Rows:
    """Return the rows of all stores, each with its store."""
    return [named(store, row) for store, found in answers for row in found]


def newest(answers: Answers, arguments: Mapping[str, Any]) -> Rows:
    """Return the newest rows of all stores."""
    return sorted(rows(answers, arguments), key=_time, reverse=True)[: arguments["limit"]]


def oldest(answers: Answers, arguments: Mapping[str, Any]) -> Rows:
    """Return the oldest rows of all stores."""
    return sorted(rows(answers, arguments), key=_time)[: arguments["limit"]]


def added(answers: Answers, arguments: Mapping[str, Any]) -> Any:
    """Return the sums of counts."""
    return _sum([answer for _, answer in answers])


def _sum(values: Sequence[Any]) -> Any:
    if isinstance(values[0], Mapping):
        names = dict.fromkeys(name for value in values for name in value)
        return {name: _sum([value[name] for value in values if name in value]) for name in names}
    return sum(values)


def census(answers: Answers, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sums of the figures, as of the oldest census, and the pairs of all stores."""
    alone = ("as_of", "pairs")
    figures = [{name: value for name, value in answer.items() if name not in alone} for _, answer in answers]
    pairs = [named(store, pair) for store, answer in answers for pair in answer["pairs"]]
    return {"as_of": _oldest(answers), **_sum(figures), "pairs": pairs}


def causes(answers: Answers, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the causes of all stores, the most frequent first."""
    found = [named(store, row) for store, answer in answers for row in answer["rows"]]
    return {"as_of": _oldest(answers), "rows": sorted(found, key=lambda row: row["rows"], reverse=True)}


def institutions(answers: Answers, arguments: Mapping[str, Any]) -> Rows:
    """Return each institution once: present anywhere, its copies in all stores, the process at its own front."""
    found: dict[str, dict[str, Any]] = {}
    for store, answer in answers:
        for row in answer:
            one = found.setdefault(row["node"], {"node": row["node"], "online": False, "held": 0, "stores": {}})
            one["online"] = one["online"] or row["online"]
            one["held"] += row["held"]
            if row["held"]:
                one["stores"][store_text(store)] = row["held"]
            one |= {name: row[name] for name in ("store_uuid", "boot", "incarnation") if name in row}
    return list(found.values())


def stores(answers: Answers, arguments: Mapping[str, Any]) -> Rows:
    """Return each store once: as it describes itself, or else as another instance knows it."""
    found: dict[str, dict[str, Any]] = {}
    asked: Counter[str] = Counter()
    for store, answer in answers:
        for row in answer:
            asked[row["store"]] += row.get("asked", 0)
            if row["store"] == store_text(store) or row["store"] not in found:
                found[row["store"]] = row
    return [row | ({"asked": asked[name]} if "asked" in row else {}) for name, row in found.items()]


def first(answers: Answers, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of the store that has the message: one with its row rather than one with its ledger lines."""
    store, found = min(answers, key=lambda one: bool(one[1].get("cleaned")))
    others = [store_text(other) for other, _ in answers if other != store]
    return named(store, found) | ({"other_stores": others} if others else {})


def histories(answers: Answers, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ledger lines of all stores about one message, in the order of time."""
    events = [named(store, event) for store, answer in answers for event in answer["events"]]
    lists = {
        name: list(dict.fromkeys(one for _, answer in answers for one in answer[name])) for name in ("others", "before")
    }
    return {**answers[0][1], "events": sorted(events, key=_time), **lists}


def _oldest(answers: Answers) -> int:
    return min(int(answer["as_of"]) for _, answer in answers)


def _time(row: Mapping[str, Any]) -> int:
    return int(row["at"] or 0)
