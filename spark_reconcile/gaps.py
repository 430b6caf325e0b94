"""Gaps in the evidence: which extract, of which ledger and date, would let messages be judged that cannot be.

``stages.absences`` says whose ledger is absent from which moment on; here that becomes the extracts to ask for. Used by
the page (sources, banner), by ``Result.missing`` and by summary.json, so that all of them name the same.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from spark_reconcile.inputs import THE_HUB, UNKNOWN_STORE, Source, node_of
from spark_reconcile.stages import Absence


class Gap(NamedTuple):
    """An extract to ask for: whose, of which date, and the messages that cannot be judged without it."""

    name: str  #: of the ledger; of the node, or THE_HUB, where no ledger of it is known
    day: date
    messages: int


def gaps(
    sources: Sequence[Source], hubs: Collection[str], absences: Iterable[Absence], read: Collection[date]
) -> list[Gap]:
    """The extracts without which messages cannot be judged, the most messages first.

    ``hubs``: the platform's nodes; ``read``: the dates whose extracts the run has looked for.
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
    """The extracts that are absent, of some ledgers: those of the date itself, else those of the date before.

    A ledger whose extract of the date is there begins too late: so is said by its clock, or by a copy of it that was
    made before the date was over.
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
    """The known ledgers of a node, or of the hub; a ledger is its own. ``known``: the node of each."""
    nodes = set(hubs) if name == THE_HUB else {name}
    return [name] if name in known else sorted(one for one, node in known.items() if node in nodes) or [name]


def _short(sources: Sequence[Source], ledgers: Collection[str], wanted: date) -> list[str]:
    """The ledgers whose extract of a date was made before the date was over."""
    of_day = [one.manifest for one in sources if one.day == wanted and one.is_used and one.source in ledgers]
    return sorted(m.source for m in of_day if m is not None and m.watermark < m.window_end)


def missing(sources: Sequence[Source], found: Iterable[Gap]) -> list[str]:
    """What was not delivered: ledgers where it is known which, else nodes, or the hub; none of them twice."""
    named = {one.source for one in sources if one.state == "MISSING"} | {gap.name for gap in found}
    by_ledger = {node_of(name) for name in named if node_of(name) != name}
    return sorted(named - by_ledger)
