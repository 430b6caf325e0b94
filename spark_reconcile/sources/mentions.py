"""Mentions: the ledgers and nodes named in the lines of a date, for ``--require-all``.

This process reads five columns in batches, without Spark. A target needs no ledger if all its messages were refused or
dropped.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from semq.store.rows import Event, Side
from spark_reconcile.extracts.events import NOTE_EVENTS
from spark_reconcile.sources.inputs import Source

_TEXTS = ["lk0", "target", "lk1"]
_COLUMNS = ["side", "event", *_TEXTS]
_BATCH = 1 << 16  # lines
_LEDGER = r"^(?P<ledger>[0-9]{1,3}[.][A-Za-z0-9_-]{1,64}[.][0-9]{1,9}[.][0-9]{1,9})[.]"
_STORE = r"^(?P<store>[0-9]{1,9}[.][0-9]{1,9})[.][0-9]{1,19}$"
_TURNED_AWAY = [Event.REFUSED, Event.DROPPED]
_HANDLED_BY_HUB = [Event.FORWARDED, Event.STORED, Event.SENT, Event.RELEASED]


def absent_sources(sources: Iterable[Source], day: date) -> list[str]:
    """Return the ledgers without a usable extract of a date that are missing, unfinished or named in its lines.

    If only the node is known, return the node.
    """
    of_date = [source for source in sources if source.day == day]
    used = [source for source in of_date if source.is_used]
    ledgers, nodes = {source.source for source in used}, {source.node for source in used}
    expected = {source.source for source in of_date if source.state in ("MISSING", "UNFINISHED")}
    mentioned = _mentioned(used)
    absent = (expected | mentioned.sender_ledgers | _absent_stores(used, mentioned.hub_stores)) - ledgers
    absent |= mentioned.hub_targets - nodes
    absent |= {node for node in mentioned.sender_targets - nodes - absent if _has_message_to(used, node)}
    nodes_with_ledger = {name.rsplit(".", 2)[0] for name in absent}
    return sorted(absent - nodes_with_ledger)


def _absent_stores(used: Sequence[Source], stores: Mapping[str, Collection[str]]) -> set[str]:
    """Return the ledgers of the hub's stores that have not delivered although two or more nodes name copies in them."""
    hubs = {source.node for source in used if source.manifest is not None and source.manifest.role == "platform"}
    if not hubs:
        return set()
    delivered = {source.manifest.store for source in used if source.manifest is not None and source.node in hubs}
    return {f"{min(hubs)}.{store}" for store, nodes in stores.items() if store not in delivered and len(nodes) > 1}


class _Mentioned:
    """The names in the lines of a date."""

    def __init__(self) -> None:
        self.sender_ledgers: set[str] = set()  #: from the LK0 of lines of hub and receivers
        self.hub_targets: set[str] = set()  #: nodes to which the hub has forwarded, stored, sent or released a message
        self.sender_targets: set[str] = set()  #: nodes to which a sender has addressed a message
        self.hub_stores: dict[str, set[str]] = {}  #: stores of copies, each with the nodes that name it


def _mentioned(used: Sequence[Source]) -> _Mentioned:
    mentioned = _Mentioned()
    for node, batch in _batches(used):
        by_sender = pc.equal(batch["side"], int(Side.SENDER))
        by_hub = pc.equal(batch["side"], int(Side.HUB))
        handled_by_hub = pc.and_(by_hub, _is_in(batch["event"], _HANDLED_BY_HUB))
        addressed = pc.and_(by_sender, pc.invert(_is_in(batch["event"], _TURNED_AWAY)))
        sources = pc.extract_regex(pc.filter(batch["lk0"], pc.invert(by_sender)), _LEDGER)
        copies = pc.extract_regex(pc.filter(batch["lk1"], pc.invert(by_hub)), _STORE)
        for store in _texts(pc.struct_field(copies, "store")):
            mentioned.hub_stores.setdefault(store, set()).add(node)
        mentioned.sender_ledgers |= _texts(pc.struct_field(sources, "ledger"))
        mentioned.hub_targets |= _nodes(pc.filter(batch["target"], handled_by_hub))
        mentioned.sender_targets |= _nodes(pc.filter(batch["target"], addressed))
    return mentioned


def _nodes(targets: pa.Array) -> set[str]:
    return {target.partition("/")[0] for target in _texts(targets)}


def _has_message_to(used: Sequence[Source], node: str) -> bool:
    addressed: set[bytes] = set()
    turned_away: set[bytes] = set()
    name = node.encode()
    for _, batch in _batches(used):
        is_target = pc.or_(pc.equal(batch["target"], name), pc.starts_with(batch["target"], name + b"/"))
        to_node = batch.filter(is_target)
        is_turned_away = _is_in(to_node["event"], _TURNED_AWAY)
        is_addressed = pc.and_(pc.equal(to_node["side"], int(Side.SENDER)), pc.invert(is_turned_away))
        turned_away.update(pc.filter(to_node["lk0"], is_turned_away).to_pylist())
        addressed.update(pc.filter(to_node["lk0"], is_addressed).to_pylist())
    return bool(addressed - turned_away)


def _batches(used: Iterable[Source]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the lines that are no notes, with their node; texts as bytes, because they may be invalid UTF-8."""
    for node, file in ((source.node, file) for source in used for file in source.files):
        with file.open() as stream, pq.ParquetFile(stream) as parquet:
            for batch in parquet.iter_batches(batch_size=_BATCH, columns=_COLUMNS):
                without_notes = batch.filter(pc.invert(_is_in(batch["event"], NOTE_EVENTS)))
                texts = (_raw(without_notes[name]) for name in _TEXTS)
                yield node, pa.record_batch([without_notes["side"], without_notes["event"], *texts], _COLUMNS)


def _raw(column: pa.Array) -> pa.Array:
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return plain.cast(pa.binary())


def _texts(column: pa.Array) -> set[str]:
    return {raw.decode(errors="replace") for raw in pc.unique(column).to_pylist() if raw}


def _is_in(event: pa.Array, events: Iterable[Event]) -> pa.Array:
    return pc.is_in(event, value_set=pa.array([int(member) for member in events], event.type))
