"""Combination of the answers of several stores.

An operation on one store has its position in a list as one argument, a number. A position in a list over several
stores is therefore encoded as one number, too: the high bits are the position of the store in the hub's list of stores,
the low bits the position in that store.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, cast

import msgspec

from semq.answers.messages import MessageTrace, QueueCensus, StuckSums, Sums, TracedLine
from semq.engine.hub.carrier import StoreName
from semq.service.errors import BadArguments
from semq.service.operations.figures import EndedCount, TrafficFigures, merged

PLACE_BITS = 56  # of a number in one store: 16 for openings of the store, 40 for rows since the opening
STORES_MAX = (1 << (63 - PLACE_BITS)) - 1
Rows = list[dict[str, object]]  #: of any operation that returns a list
Answers = Sequence[tuple[StoreName, Any]]
Combine = Callable[[Answers, Mapping[str, object]], Any]  #: (answers, arguments) -> combined answer


class StorePlace(NamedTuple):
    """A place in a list over several stores."""

    store: int  #: position among the stores of the hub
    number: int  #: place in the store; 0: the beginning


def place_of(number: int) -> StorePlace:
    """Return the place that a number encodes."""
    return StorePlace(number >> PLACE_BITS, number & ((1 << PLACE_BITS) - 1))


def number_for(place: StorePlace) -> int:
    """Return a place as one number. Raises BadArguments."""
    if place.number >> PLACE_BITS or place.store > STORES_MAX:
        raise BadArguments("This position cannot be encoded for all stores at once: use a filter.", store=place.store)
    return (place.store << PLACE_BITS) | place.number


def store_text(store: StoreName) -> str:
    """Return the name of a store, for instance ``1.2``."""
    return f"{store[0]}.{store[1]}"


def with_store(store: StoreName, row: Mapping[str, object]) -> dict[str, object]:
    """Return a row with the name of its store."""
    return {**row, "store": store_text(store)}


def rows(answers: Answers, arguments: Mapping[str, object]) -> Rows:
    """Return the rows of all stores, each with its store."""
    return [with_store(store, row) for store, answer in answers for row in answer]


def _sum(values: Sequence[Any]) -> Any:
    if isinstance(values[0], Mapping):
        names = dict.fromkeys(name for value in values for name in value)
        return {name: _sum([value[name] for value in values if name in value]) for name in names}
    return sum(values)


def census(answers: Answers, arguments: Mapping[str, object]) -> QueueCensus:
    """Return the sums of the figures, the lists and the oldest document of all stores, as of the oldest census."""
    counted: list[QueueCensus] = [answer for _, answer in answers]
    return {
        "as_of": _oldest(answers),
        "sent": _sum([each["sent"] for each in counted]),
        "received": _sum([each["received"] for each in counted]),
        "submitted": _sum([each["submitted"] for each in counted]),
        "pieces": _sum([each["pieces"] for each in counted]),
        "failed": sum(each["failed"] for each in counted),
        "stuck": sum(each["stuck"] for each in counted),
        "pairs": [_in_store(store, pair) for store, answer in answers for pair in answer["pairs"]],
        "inboxes": [inbox for each in counted for inbox in each["inboxes"]],
        "oldest": min((oldest for each in counted if (oldest := each["oldest"])), key=itemgetter("at"), default=None),
    }


def _in_store(store: StoreName, sums: Sums) -> Sums:
    return {**sums, "store": store_text(store)}


def pairs(answers: Answers, arguments: Mapping[str, object]) -> Rows:
    """Return the sums of the documents of each pair."""
    sums: dict[tuple[str, str], Counter[str]] = {}
    for _, answer in answers:
        for row in answer:
            sums.setdefault((row["source"], row["target"]), Counter()).update(row["documents"])
    return [{"source": source, "target": target, "documents": dict(sum_)} for (source, target), sum_ in sums.items()]


def ended(answers: Answers, arguments: Mapping[str, object]) -> EndedCount:
    """Return the sums of the ended documents; they are complete if all stores have counted all."""
    counts = [msgspec.convert(answer, EndedCount) for _, answer in answers]
    outcomes: dict[str, int] = _sum([count.by_outcome for count in counts])
    return EndedCount(sum(count.matches for count in counts), outcomes, all(count.is_complete for count in counts))


def traffic(answers: Answers, arguments: Mapping[str, object]) -> TrafficFigures:
    """Return the sums of the documents over time."""
    return merged([msgspec.convert(answer, TrafficFigures, strict=False) for _, answer in answers])


def causes(answers: Answers, arguments: Mapping[str, object]) -> StuckSums:
    """Return the causes of all stores, the most frequent first."""
    rows_of_all = [_in_store(store, row) for store, answer in answers for row in answer["rows"]]
    return {"as_of": _oldest(answers), "rows": sorted(rows_of_all, key=lambda row: row["rows"], reverse=True)}


def institutions(answers: Answers, arguments: Mapping[str, object]) -> Rows:
    """Return each institution once, with its presence at any instance and its copies in all stores."""
    merged: dict[str, dict[str, Any]] = {}
    for store, answer in answers:
        for row in answer:
            institution = merged.setdefault(
                row["node"], {"node": row["node"], "online": False, "held": 0, "stores": {}}
            )
            institution["online"] = institution["online"] or row["online"]
            institution["held"] += row["held"]
            if row["held"]:
                institution["stores"][store_text(store)] = row["held"]
            institution |= {
                name: row[name] for name in ("store_uuid", "boot", "incarnation", "address", "version") if name in row
            }
            if "seen_at" in row:
                institution["seen_at"] = max(institution.get("seen_at", ""), row["seen_at"])
    return list(merged.values())


def stores(answers: Answers, arguments: Mapping[str, object]) -> Rows:
    """Return one row for each store, if possible from the instance that serves it.

    ``asked``, the number of records about copies of a store that is not here, is summed over all instances.
    """
    chosen: dict[str, dict[str, object]] = {}
    asked: Counter[str] = Counter()
    for store, answer in answers:
        for row in answer:
            asked[row["store"]] += row.get("asked", 0)
            if row["store"] == store_text(store) or row["store"] not in chosen:
                chosen[row["store"]] = row
    return [row | ({"asked": asked[name]} if "asked" in row else {}) for name, row in chosen.items()]


def prefer_row(answers: Answers, arguments: Mapping[str, object]) -> dict[str, object]:
    """Return the answer of the store that has the row of the message, otherwise of a store that has ledger lines."""
    store, message = min(answers, key=lambda answer: bool(answer[1].get("cleaned")))
    others = [store_text(other) for other, _ in answers if other != store]
    return with_store(store, message) | ({"other_stores": others} if others else {})


def histories(answers: Answers, arguments: Mapping[str, object]) -> MessageTrace:
    """Return the ledger lines of all stores about one message, in order of time."""
    trace: MessageTrace = answers[0][1]
    events = [with_store(store, event) for store, answer in answers for event in answer["events"]]
    return {
        **trace,
        "events": cast(list[TracedLine], sorted(events, key=_time)),
        "others": list(dict.fromkeys(lk0 for _, answer in answers for lk0 in answer["others"])),
        "before": list(dict.fromkeys(lk0 for _, answer in answers for lk0 in answer["before"])),
    }


def _oldest(answers: Answers) -> int:
    return min(int(answer["as_of"]) for _, answer in answers)


def _time(row: Mapping[str, Any]) -> int:
    return int(row["at"] or 0)
