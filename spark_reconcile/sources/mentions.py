"""Mentions: the ledgers and nodes named in the lines of a date, to find absent ones before Spark starts.

Used for ``--require-all`` only. The driver reads five columns in batches and keeps only names. A target whose messages
were all refused or dropped needs no ledger.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from semq.store.rows import Event, Side
from spark_reconcile.sources.inputs import Source

_TEXTS = ["lk0", "target", "lk1"]
_COLUMNS = ["side", "event", *_TEXTS]
_BATCH = 1 << 16  # lines
_LEDGER = r"^(?P<ledger>[0-9]{1,3}[.][A-Za-z0-9_-]{1,64}[.][0-9]{1,9}[.][0-9]{1,9})[.]"
_STORE = r"^(?P<store>[0-9]{1,9}[.][0-9]{1,9})[.][0-9]{1,19}$"
_NOTES = [Event.INQUIRED, Event.ANSWERED, Event.VIOLATION, Event.MISMATCH, Event.OPERATOR]
_TURNED_AWAY = [Event.REFUSED, Event.DROPPED]
_LET_THROUGH = [Event.FORWARDED, Event.STORED, Event.SENT, Event.RELEASED]


def absent_sources(sources: Iterable[Source], day: date) -> list[str]:
    """Return the ledgers, and nodes without a known ledger, that occur in lines of a date and have not delivered it."""
    sources = [source for source in sources if source.day == day]
    used = [source for source in sources if source.is_used]
    ledgers, nodes = {one.source for one in used}, {one.node for one in used}
    expected = {one.source for one in sources if one.state in ("MISSING", "UNFINISHED")}
    named = _names(used)
    absent = (expected | named.ledgers | _of_hub(used, named.stores)) - ledgers
    absent |= named.targets - nodes
    absent |= {node for node in named.asked - nodes - absent if _waits(used, node)}
    by_ledger = {name.rsplit(".", 2)[0] for name in absent}
    return sorted(name for name in absent if name not in by_ledger)


def _of_hub(used: Sequence[Source], stores: Mapping[str, Collection[str]]) -> set[str]:
    """Return, as ledgers, the hub's stores that two or more nodes name as places of copies."""
    hubs = {one.node for one in used if one.manifest is not None and one.manifest.role == "platform"}
    there = {one.manifest.store for one in used if one.manifest is not None and one.node in hubs}
    return {f"{min(hubs)}.{store}" for store, by in stores.items() if hubs and store not in there and len(by) > 1}


class _Names:
    """Names in lines: source ledgers, targets of accepted messages, targets named by senders, and for each store of
    the hub the nodes that name a copy in it."""

    def __init__(self) -> None:
        self.ledgers: set[str] = set()
        self.targets: set[str] = set()
        self.asked: set[str] = set()
        self.stores: dict[str, set[str]] = {}


def _names(used: Sequence[Source]) -> _Names:
    names = _Names()
    for node, batch in _batches(used):
        by_sender = pc.equal(batch["side"], int(Side.SENDER))
        through = pc.and_(pc.equal(batch["side"], int(Side.HUB)), _is_in(batch["event"], _LET_THROUGH))
        tried = pc.and_(by_sender, pc.invert(_is_in(batch["event"], _TURNED_AWAY)))
        of_others = pc.extract_regex(pc.filter(batch["lk0"], pc.invert(by_sender)), _LEDGER)
        by_others = pc.not_equal(batch["side"], int(Side.HUB))
        for store in _texts(pc.struct_field(pc.extract_regex(pc.filter(batch["lk1"], by_others), _STORE), "store")):
            names.stores.setdefault(store, set()).add(node)
        names.ledgers |= _texts(pc.struct_field(of_others, "ledger"))
        names.targets |= {text.partition("/")[0] for text in _texts(pc.filter(batch["target"], through))}
        names.asked |= {text.partition("/")[0] for text in _texts(pc.filter(batch["target"], tried))}
    return names


def _waits(used: Sequence[Source], node: str) -> bool:
    """Whether a message to a node was accepted, and neither refused nor dropped."""
    asked: set[bytes] = set()
    settled: set[bytes] = set()
    for _, batch in _batches(used):
        name = node.encode()
        mine = batch.filter(pc.or_(pc.equal(batch["target"], name), pc.starts_with(batch["target"], name + b"/")))
        turned = _is_in(mine["event"], _TURNED_AWAY)
        tried = pc.and_(pc.equal(mine["side"], int(Side.SENDER)), pc.invert(turned))
        settled.update(pc.filter(mine["lk0"], turned).to_pylist())
        asked.update(pc.filter(mine["lk0"], tried).to_pylist())
    return bool(asked - settled)


def _batches(used: Iterable[Source]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Read the lines that change a message's state, with their node; texts as bytes, because they may be invalid."""
    for node, file in ((source.node, file) for source in used for file in source.files):
        with file.open() as stream, pq.ParquetFile(stream) as parquet:
            for batch in parquet.iter_batches(batch_size=_BATCH, columns=_COLUMNS):
                moves = batch.filter(pc.invert(_is_in(batch["event"], _NOTES)))
                texts = (_raw(moves[name]) for name in _TEXTS)
                yield node, pa.record_batch([moves["side"], moves["event"], *texts], _COLUMNS)


def _raw(column: pa.Array) -> pa.Array:
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return plain.cast(pa.binary())


def _texts(column: pa.Array) -> set[str]:
    return {raw.decode(errors="replace") for raw in pc.unique(column).to_pylist() if raw}


def _is_in(event: pa.Array, events: Iterable[Event]) -> pa.Array:
    return pc.is_in(event, value_set=pa.array([int(one) for one in events], event.type))
