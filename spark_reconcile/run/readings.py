"""Reads of the driver from the tables that a run has written: names, counts, and the lines of some messages.

The driver reads these tables itself, a batch at a time, because a query of Spark costs a third of a second even for a
table of ten rows.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from semq.store.rows import Event, Side
from spark_reconcile.extracts.events import NOTE_EVENTS
from spark_reconcile.judgement.verdicts import EXCEPTIONS
from spark_reconcile.storage import Place
from spark_reconcile.tables import Row, read_batches, read_rows, rows_of

UNSERVED_MIN = 20  # a node with at least this many records of relayed messages should occur in a ledger of the hub
STORY_LINES = 40  # largest number of ledger lines that the page shows of a message
# Columns of ``cells``, and how they are added up.
SUMS = (
    ("sum", "messages"),
    ("min", "oldest_at"),
    ("sum", "bytes"),
    ("sum", "resends"),
    ("sum", "turned"),
    ("sum", "pieces"),
)


class LineCount(NamedTuple):
    """Numbers of ledger lines of the date."""

    node: str
    store: str
    side: int | None
    event: int | None
    lines: int
    outside: int  #: how many of them are outside their dates


class PairCount(NamedTuple):
    """Numbers of messages of one pair."""

    pair: str
    verdict: str
    scope: str  #: date or carried
    messages: int
    oldest_at: int | None


class Survey(NamedTuple):
    """The names in the lines of all ledgers, and the numbers of lines."""

    nodes: list[str]  #: the nodes that any line names
    lines: list[LineCount]  #: by node, store, side and event
    #: stores of the hub, such as 1.1, in which two or more nodes name copies; lines for the hub's side do not count
    stores: set[str]
    unserved: set[str]  #: nodes with many records of relayed messages that no line of the hub mentions


def survey(table: Place, hubs: Collection[str]) -> Survey:
    """Read the survey of the ledgers. ``hubs``: the hub's nodes."""
    nodes: set[str | None] = set()
    lines: dict[tuple[str, str, int | None, int | None], tuple[int, int]] = {}
    copies_by: dict[str, set[str]] = {}  # by store of the hub: the nodes that name copies there
    hub_targets: set[str | None] = set()
    records: dict[str, int] = {}
    for row in read_rows(table):
        node, target, side, event, count = row["node"], row["target"], row["side"], row["event"], row["lines"]
        nodes |= {node, target}
        if row["copies_in"]:
            copies_by.setdefault(row["copies_in"], set()).add(node)
        if row["on_date"]:
            key = node, row["store"], side, event
            found, outside = lines.get(key, (0, 0))
            lines[key] = found + count, outside + row["outside"]
            if side == Side.HUB and event is not None and event not in NOTE_EVENTS:
                hub_targets.add(target)
            if side == Side.RECEIVER and event == Event.RECEIVED and row["relayed"]:
                records[node] = records.get(node, 0) + count
    receivers = {node for node, count in records.items() if count >= UNSERVED_MIN} - set(hubs)
    # Lines of the hub without a target may be about any node.
    unserved = receivers - hub_targets if hub_targets and not hub_targets & {"", None} else set()
    return Survey(
        sorted(node for node in nodes if node),
        sorted((LineCount(*key, *sums) for key, sums in lines.items()), key=lambda row: [*map(str, row)]),
        {store for store, by in copies_by.items() if len(by) > 1},
        unserved,
    )


def profile(cells: Place) -> list[Row]:
    """Return the counts of ``cells``, added up over all pairs."""
    keys = ["scope", "verdict", "finding", "latency", "age"]
    names = [*keys, *(name for _, name in SUMS)]

    def added_up(table: pa.Table) -> pa.Table:
        summed = table.group_by(keys, use_threads=False).aggregate([(name, merge) for merge, name in SUMS])
        return summed.select([*keys, *(f"{name}_{merge}" for merge, name in SUMS)]).rename_columns(names)

    parts = [added_up(pa.table(batch.select(names))) for batch in read_batches(cells)]
    if not parts:
        return []
    rows: list[Row] = added_up(pa.concat_tables(parts)).to_pylist()
    return rows


def exceptions_by_pair(cells: Place) -> list[Row]:
    """Return the numbers of exceptions by sender, receiver, verdict and finding."""
    keys = ["sender", "receiver", "verdict", "finding"]
    wanted = pa.array(EXCEPTIONS, pa.string())
    parts = [
        pa.table(batch.filter(pc.is_in(batch["verdict"], value_set=wanted)).select([*keys, "messages"]))
        for batch in read_batches(cells)
    ]
    if not parts:
        return []
    summed = pa.concat_tables(parts).group_by(keys, use_threads=False).aggregate([("messages", "sum")])
    rows: list[Row] = summed.rename_columns([*keys, "messages"]).to_pylist()
    return rows


def drill(cells: Place, names: Collection[str]) -> list[Row]:
    """Return all counts of some pairs, named as in ``1.10008>1.56001``, by finding, latency and age."""
    return list(_of_pairs(cells, names))


def of_pairs(pairs: Place, names: Collection[str]) -> list[PairCount]:
    """Return the counts of some pairs by verdict and scope."""
    rows = (PairCount(*(row[name] for name in PairCount._fields)) for row in _of_pairs(pairs, names))
    return sorted(rows, key=lambda row: row[:3])


def _of_pairs(table: Place, names: Collection[str]) -> Iterator[Row]:
    wanted = pa.array(sorted(names), pa.string())
    for batch in read_batches(table):
        pair = pc.binary_join_element_wise(batch["sender"], batch["receiver"], ">")
        yield from rows_of(batch.append_column("pair", pair).filter(pc.is_in(pair, value_set=wanted)))


def stories(exception_lines: Place, lk0s: Collection[str]) -> dict[str, list[Row]]:
    """Return the lines of some messages by LK0, in the order of time, at most STORY_LINES + 1 of each message."""
    wanted = pa.array(sorted(lk0s), pa.string())
    by_message: dict[str, list[Row]] = {}
    for batch in read_batches(exception_lines) if lk0s else ():
        for row in rows_of(batch.filter(pc.is_in(batch["lk0"], value_set=wanted)).select(_STORY_COLUMNS)):
            lines = by_message.setdefault(row.pop("lk0"), [])
            lines.append(row)
            if len(lines) > 10 * STORY_LINES:  # a message may have any number of lines
                _shorten(lines)
    for lines in by_message.values():
        _shorten(lines)
    return by_message


_STORY_COLUMNS = ["lk0", "at", "outside", "side", "event", "node", "store", "seq", "att", "lk1", "digest", "reason"]


def _shorten(lines: list[Row]) -> None:
    order = ("at", "side", "node", "store", "seq")
    lines.sort(key=lambda line: [(line[name] is not None, line[name]) for name in order])
    del lines[STORY_LINES + 1 :]
