"""metrics.prom: the figures of a run in the text format that the textfile collector of Prometheus reads.

Labels are closed sets, and the NODES_MAX nodes with the most exceptions or missing ledgers; never messages.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, time

from spark_reconcile.report.banner import OUTCOMES, outcome_of
from spark_reconcile.report.findings import Findings
from spark_reconcile.report.work import PartyWork
from spark_reconcile.sources.inputs import node_of

NODES_MAX = 100


def metrics(findings: Findings, finished_at: float, seconds: float, work: Iterable[PartyWork] = ()) -> str:
    """Return metrics.prom. ``finished_at``: seconds since 1970 UTC; ``seconds``: duration of the run."""
    day = datetime.combine(findings.day, time(), UTC).timestamp()
    outcome = outcome_of(findings)
    exceptions = Counter[str]()
    for row in work:
        exceptions.update(dict.fromkeys(row.nodes, row.documents))
    unjudged = Counter[str]()
    for gap in findings.absent:
        unjudged[node_of(gap.name)] += gap.messages
    states = Counter(source.state for source in findings.sources)
    families = (
        ("reconcile_business_date_timestamp_seconds", "Start of the business date, UTC.", [("", day)]),
        ("reconcile_last_success_timestamp_seconds", "Time at which the last run was published.", [("", finished_at)]),
        ("reconcile_run_duration_seconds", "Duration of the last run.", [("", seconds)]),
        ("reconcile_evidence_until_timestamp_seconds", "Time up to which the delivered ledgers are complete.",
         [("", findings.evidence_until / 1000)]),
        ("reconcile_messages", "Documents of the date by verdict.",
         [(f'{{verdict="{name}"}}', count) for name, count in findings.verdicts.items()]),
        ("reconcile_carried_messages", "Open documents of earlier dates by verdict.",
         [(f'{{verdict="{name}"}}', count) for name, count in findings.carried.items()]),
        ("reconcile_sources", "Extracts by state.",
         [(f'{{state="{name}"}}', count) for name, count in sorted(states.items())]),
        ("reconcile_node_exceptions", "Exceptions that are the work of a node.", _by_node(exceptions)),
        ("reconcile_node_unjudged_messages", "Documents that cannot be judged without a ledger of the node.",
         _by_node(unjudged)),
        ("reconcile_threshold_breaches", "Thresholds that are exceeded.", [("", len(findings.breaches))]),
        ("reconcile_outcome", "1 for the outcome of the last published run, 0 for the others.",
         [(f'{{outcome="{name}"}}', int(name == outcome)) for name in OUTCOMES]),
    )  # fmt: skip
    lines = []
    for name, description, values in families:
        if not values:
            continue
        lines += [f"# HELP semq_{name} {description}", f"# TYPE semq_{name} gauge"]
        lines += [f"semq_{name}{labels} {value:.15g}" for labels, value in values]
    return "\n".join(lines) + "\n"


def _by_node(counts: Counter[str]) -> list[tuple[str, int]]:
    """Return the largest counts with the label of their node; names are those of manifests, or harmless words."""
    worst = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:NODES_MAX]
    return [(f'{{node="{node}"}}', count) for node, count in sorted(worst)]
