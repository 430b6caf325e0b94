"""summary.json: what a run found, for programs. Equal inputs give equal bytes; the run's name and time stand in
_RESULT.json."""

from typing import Any

from spark_reconcile.evidence import VERSION
from spark_reconcile.judging import AGES, LATENCIES
from spark_reconcile.report.findings import Findings
from spark_reconcile.verdicts import VERDICT

SUMMARY_VERSION = 1


def summary(findings: Findings) -> dict[str, Any]:
    """The facts of a run in a fixed form."""
    f = findings
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
        "verdicts": f.verdicts,
        "findings": [_finding(row) for row in f.tally.by_finding if row["scope"] == "date"],
        "carried": {"messages": sum(f.carried.values()), "verdicts": f.carried},
        "other_dates": f.other_dates,
        "exceptions": sum(count for name, count in f.verdicts.items() if VERDICT[name].kind == "exception"),
        "ages": [
            {"verdict": verdict, "age": AGES[bucket][1], "messages": count}
            for (scope, verdict, bucket), count in sorted(f.tally.ages.items())
            if scope == "date"
        ],
        "latency": [
            {"within": LATENCIES[bucket][1], "messages": count} for bucket, count in sorted(f.tally.latencies.items())
        ],
        "pairs": f.pairs,
        "sources": [source.facts() for source in f.sources],
        "absent": f.absent,
        "clocks": {node: skew._asdict() for node, skew in sorted(f.skews.items())},
        "lines": f.lines,
        "breaches": [breach._asdict() for breach in f.breaches],
    }


def _finding(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("verdict", "finding", "messages", "oldest_at", "bytes", "resends")}
