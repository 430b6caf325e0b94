"""All metrics of nodes and of the reconciliation, and the counters in ``semq_events_total``."""

from collections.abc import Iterator

from documentation.reference.cells import code, plain, table
from semq.counters import COUNTERS
from semq.engine.latency import Stage
from semq.service.monitoring.metrics import LATENCY, LATENCY_HELP, METRICS

INTRODUCTION = """\
A node with `[http]` serves them at `/metrics` ([monitoring](../operate/monitoring.md)). Those marked *detailed* have a
label for each partner, and are served at `/metrics/detailed` only.
"""


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield INTRODUCTION
    rows = [(code(row.name), row.kind, plain(row.help) + (" *detailed*" if row.detailed else "")) for row in METRICS]
    stages = ", ".join(f"`{stage.value}`" for stage in Stage)
    rows.append((code(LATENCY), "histogram", f"{plain(LATENCY_HELP)} Stages: {stages}."))
    yield from table(("metric", "kind", "meaning"), rows)
    yield from ("## Counters of events", "", '`semq_events_total{event="…"}`, and `semq node status --counters`:', "")
    yield from table(("event", "counts"), ((code(name), plain(text)) for name, text in COUNTERS.items()))
