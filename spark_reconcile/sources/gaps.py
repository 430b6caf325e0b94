"""Gaps in the evidence: the missing extracts, by ledger and date, that prevent verdicts.

``stages.absences`` returns the absent ledgers and times; this module derives the extracts to ask for. Used by the page
(sources, banner), ``RunResult.missing`` and summary.json, so that all of them name the same extracts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from spark_reconcile.run.stages import Absence
from spark_reconcile.sources.inputs import THE_HUB, UNKNOWN_STORE, Source, node_of


class Gap(NamedTuple):
    """An extract to ask for: ledger, date, and the number of messages that need it."""

    name: str  #: name of the ledger; of the node or THE_HUB, if no ledger of it is known
    day: date
    messages: int


def gaps(
    sources: Sequence[Source], hubs: Collection[str], absences: Iterable[Absence], read: Collection[date]
) -> list[Gap]:
    """Return the extracts without which messages cannot be judged, those with most messages first.

    ``hubs``: the hub's nodes; ``read``: the dates whose extracts the run has read.
    """
    absences = list(absences)
    named = {absence.name for absence in absences if node_of(absence.name) != absence.name}
    known = {one.source: one.node for one in sources if one.node != one.source} | {
        name: node_of(name) for name in named
    }
    counted: dict[tuple[str, date], int] = {}
    for absence in absences:
        for key in _lacking(sources, _ledgers(known, hubs, absence.name), absence, read):
            counted[key] = counted.get(key, 0) + absence.messages
    found = [Gap(name, wanted, messages) for (name, wanted), messages in counted.items()]
    return sorted(found, key=lambda gap: (-gap.messages, gap.day, gap.name))


def _lacking(
    sources: Sequence[Source], ledgers: Sequence[str], absence: Absence, read: Collection[date]
) -> list[tuple[str, date]]:
    """Return the absent extracts of some ledgers: those of the date itself, else those of the date before.

    If a ledger has an extract of the date, its lines begin too late by its clock, or the extract was made before the
    date was over.
    """
    if absence.name == UNKNOWN_STORE:
        return [(UNKNOWN_STORE, absence.day)]
    used = {(source.source, source.day) for source in sources if source.is_used}
    for wanted in (absence.day, absence.day - timedelta(days=1)):
        lacking = [(name, wanted) for name in ledgers if wanted in read and (name, wanted) not in used]
        if lacking:
            return lacking
    return [(name, absence.day) for name in _short(sources, ledgers, absence.day) or [absence.name]]


def _ledgers(known: Mapping[str, str], hubs: Collection[str], name: str) -> list[str]:
    """Return the known ledgers of a node or of the hub; for a ledger, itself. ``known``: the node of each."""
    nodes = set(hubs) if name == THE_HUB else {name}
    return [name] if name in known else sorted(one for one, node in known.items() if node in nodes) or [name]


def _short(sources: Sequence[Source], ledgers: Collection[str], wanted: date) -> list[str]:
    """Return the ledgers whose extract of a date was made before the date was over."""
    of_day = [one.manifest for one in sources if one.day == wanted and one.is_used and one.source in ledgers]
    return sorted(m.source for m in of_day if m is not None and m.watermark < m.window_end)


def missing(sources: Sequence[Source], found: Iterable[Gap]) -> list[str]:
    """Return the missing ledgers, or nodes or the hub if their ledgers are unknown; without repetitions."""
    named = {one.source for one in sources if one.state == "MISSING"} | {gap.name for gap in found}
    by_ledger = {node_of(name) for name in named if node_of(name) != name}
    return sorted(named - by_ledger)
