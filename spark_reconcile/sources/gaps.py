"""Gaps in the evidence: the missing extracts, by ledger and date, that prevent verdicts.

``stages.absences`` returns the absent ledgers and dates; this module derives from them the extracts that are needed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from spark_reconcile.run.stages import Absence
from spark_reconcile.sources.inputs import THE_HUB, UNKNOWN_STORE, Source, node_of


class Gap(NamedTuple):
    """A missing extract: ledger, date, and the number of messages that need it."""

    name: str  #: the ledger; if none is known, the node, THE_HUB or UNKNOWN_STORE
    day: date
    messages: int
    is_late: bool = False  #: delivered after the run of its date, which must be repeated (``late``)


def gaps(
    sources: Sequence[Source], hubs: Collection[str], absences: Iterable[Absence], read: Collection[date]
) -> list[Gap]:
    """Return the extracts without which messages cannot be judged, those with most messages first.

    ``hubs``: the hub's nodes; ``read``: the dates whose extracts the run has read.
    """
    absences = list(absences)
    node_of_ledger = {source.source: source.node for source in sources if source.node != source.source}
    node_of_ledger |= {
        absence.name: node_of(absence.name) for absence in absences if node_of(absence.name) != absence.name
    }
    messages: dict[tuple[str, date], int] = {}
    for absence in absences:
        for extract in _absent_extracts(sources, _ledgers(node_of_ledger, hubs, absence.name), absence, read):
            messages[extract] = messages.get(extract, 0) + absence.messages
    needed = [Gap(name, day, count) for (name, day), count in messages.items()]
    return sorted(needed, key=lambda gap: (-gap.messages, gap.day, gap.name))


def _absent_extracts(
    sources: Sequence[Source], ledgers: Sequence[str], absence: Absence, read: Collection[date]
) -> list[tuple[str, date]]:
    """Return the absent extracts of some ledgers: those of the date itself, else those of the date before.

    If none is absent, return the extracts of the date that were made before its end. If there are none of these either,
    return the extract of the ledger that ``absence`` names: by its clock, this ledger begins too late.
    """
    if absence.name == UNKNOWN_STORE:
        return [(UNKNOWN_STORE, absence.day)]
    used = {(source.source, source.day) for source in sources if source.is_used}
    for day in (absence.day, absence.day - timedelta(days=1)):
        absent = [(name, day) for name in ledgers if day in read and (name, day) not in used]
        if absent:
            return absent
    return [(name, absence.day) for name in _made_too_early(sources, ledgers, absence.day) or [absence.name]]


def _ledgers(node_of_ledger: Mapping[str, str], hubs: Collection[str], name: str) -> list[str]:
    """Return the known ledgers of a node or the hub; the name itself if it is a ledger, or no ledger is known."""
    if name in node_of_ledger:
        return [name]
    nodes = set(hubs) if name == THE_HUB else {name}
    return sorted(ledger for ledger, node in node_of_ledger.items() if node in nodes) or [name]


def _made_too_early(sources: Sequence[Source], ledgers: Collection[str], day: date) -> list[str]:
    used = (source for source in sources if source.day == day and source.is_used and source.source in ledgers)
    manifests = (source.manifest for source in used)
    return sorted(m.source for m in manifests if m is not None and m.watermark < m.window_end)


def missing(sources: Sequence[Source], needed: Iterable[Gap]) -> list[str]:
    """Return the missing and late ledgers, for unknown ones the node or the hub, and the first missing run."""
    absent = {source.source for source in sources if source.state in ("MISSING", "NOT_RUN", "LATE")}
    absent |= {gap.name for gap in needed}
    nodes_with_ledger = {node_of(name) for name in absent if node_of(name) != name}
    return sorted(absent - nodes_with_ledger)
