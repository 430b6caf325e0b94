"""summary.json: the findings of a run, for programs. Equal inputs give equal bytes."""

from collections.abc import Mapping, Sequence

from semq.durations import classes
from spark_reconcile.judgement.assessment import AGES, LATENCIES
from spark_reconcile.report.exceptions import Exceptions
from spark_reconcile.report.findings import Findings, Tally
from spark_reconcile.report.pairs import Pair, Pairs
from spark_reconcile.report.sheets import SheetSize
from spark_reconcile.report.work import PartyWork, gap_facts, work_facts
from spark_reconcile.run.runs import Facts
from spark_reconcile.sources.evidence import VERSION

SUMMARY_VERSION = 1
WORK_MAX = 1000  # rows of work, those with the most documents


def summary(
    findings: Findings, pairs: Pairs, exceptions: Exceptions, work: Sequence[PartyWork], contacts: Mapping[str, str]
) -> Facts:
    """Return the contents of summary.json. ``contacts``: whom to call, by address of an institution."""
    f, figures = findings, findings.tally.figures()
    return {
        "schema_version": SUMMARY_VERSION,
        "rules_version": VERSION,
        "business_date": f.day.isoformat(),
        "zone": f.calendar.zone,
        "cutoff": f.calendar.cutoff,
        "window": list(f.window),
        "evidence_until": f.evidence_until,
        "fingerprint": f.fingerprint,
        "messages": f.messages,
        "pieces": f.pieces,
        "documents_in_pieces": {
            "verdicts": f.documents.verdicts("date"),
            "carried": f.documents.verdicts("carried"),
            "worst": list(f.documents.worst),
        },
        "verdicts": f.verdicts,
        "findings": _findings(f.tally, "date"),
        "carried": {
            "messages": sum(f.carried.values()),
            "verdicts": f.carried,
            "found_now": {name: found for name in f.carried if (found := f.tally.figures(name).found)},
            "findings": _findings(f.tally, "carried"),
            "ages": _ages(f.tally, "carried"),
        },
        "other_dates": f.other_dates,
        "exceptions": figures.date,
        "need_work": {"date": figures.date, "earlier": figures.found + figures.known},
        "work": work_facts(work[:WORK_MAX], contacts),
        "ages": _ages(f.tally, "date"),
        "latency": _latency(f.tally),
        "pairs": [_pair(pair, pairs.tallies[pair.name]) for pair in pairs.shown],
        "files": {"exceptions.csv": _rows(exceptions.sheet), "pairs.csv": _rows(pairs.sheet)},
        "sources": [source.facts() for source in f.sources],
        "absent": [gap_facts(gap, f.day) for gap in f.absent],
        "clocks": {node: skew._asdict() for node, skew in sorted(f.skews.items())},
        "lines": [row._asdict() for row in f.lines],
        "breaches": [breach._asdict() for breach in f.breaches],
    }


def _findings(tally: Tally, scope: str) -> list[Facts]:
    names = ("verdict", "finding", "messages", "oldest_at", "bytes", "resends")
    return [{name: getattr(row, name) for name in names} for row in tally.by_finding if row.scope == scope]


def _ages(tally: Tally, scope: str) -> list[Facts]:
    return [
        {"verdict": verdict, "age": classes(AGES)[bucket], "messages": count}
        for (age_scope, verdict, bucket), count in sorted(tally.ages.items())
        if age_scope == scope
    ]


def _latency(tally: Tally) -> list[Facts]:
    return [
        {"within": classes(LATENCIES)[bucket], "messages": count} for bucket, count in sorted(tally.latencies.items())
    ]


def _pair(pair: Pair, tally: Tally) -> Facts:
    return {
        "sender": pair.sender,
        "receiver": pair.receiver,
        "messages": pair.messages,
        "pieces": pair.pieces,
        "exceptions": pair.exceptions,
        "verdicts": dict(pair.of_date),
        "bytes": pair.bytes,
        "resends": pair.resends,
        "oldest_at": pair.oldest_at,
        "ages": _ages(tally, "date"),
        "latency": _latency(tally),
        "carried": {
            "exceptions": pair.carried_exceptions,
            "verdicts": dict(pair.carried),
            "ages": _ages(tally, "carried"),
        },
    }


def _rows(sheet: SheetSize) -> dict[str, int]:
    return {"rows": sheet.written, "of": sheet.found}
