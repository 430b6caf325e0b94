"""Figures of a node for Prometheus, derived from ``node.status``, the census of the queues, and the latency histograms.

``METRICS`` has a row for each family. Labels are closed sets: checks, states, causes, events; figures per institution
(``detailed``) are only in the detailed answer. ``render`` writes the text; it is slow enough for a thread.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import Any, NamedTuple

from semq import __version__
from semq.counters import COUNTERS
from semq.engine.latency import BOUNDS_S, Histogram, Stage
from semq.service.monitoring.health import VERDICTS, checks

Status = Mapping[str, Any]
Sample = tuple[Mapping[str, str], float]
# Figures of the AMQP endpoint that are sums since the start; the others are current values.
SUMS = frozenset(
    "connections_accepted connections_refused handshakes_failed logins_refused published delivered alarms".split()
)

# Figures of datagrams (``semq.datagrams.counts``): documents by result, and datagrams that were ignored.
BEST_EFFORT = "sent received too_large not_open too_fast no_room".split()
IGNORED = "forged repeated unreadable full".split()


@dataclass(frozen=True, slots=True)
class Figures:
    """The values from which the families are made."""

    status: Status
    warn_days: float  #: days before the end of a certificate
    now_ms: int
    queues: Mapping[str, Any] = field(default_factory=dict)  #: answer of ``queue.census``
    causes: Mapping[str, Any] = field(default_factory=dict)  #: answer of ``stuck.causes``
    latency: Mapping[Stage, Histogram] = field(default_factory=dict)


class Metric(NamedTuple):
    """A row of the table."""

    name: str
    kind: str  #: gauge, counter (its name ends with ``_total``) or info (``_info``)
    help: str
    samples: Callable[[Figures], Iterable[Sample]]
    detailed: bool = False


def _one(name: str) -> Callable[[Figures], list[Sample]]:
    """Return a function that takes one number of the status."""
    return lambda of: [({}, float(of.status[name]))] if of.status.get(name) is not None else []


def _each(part: str, label: str) -> Callable[[Figures], list[Sample]]:
    """Return a function that lists the numbers of one part of the status."""
    return lambda of: [({label: name}, value) for name, value in of.status.get(part, {}).items()]


def _of(part: str, name: str) -> Callable[[Figures], list[Sample]]:
    """Return a function that takes one number of one part of the status."""
    return lambda of: [({}, float(of.status[part][name]))] if name in of.status.get(part, {}) else []


def _info(of: Figures) -> list[Sample]:
    labels = {name: str(of.status.get(name, "")) for name in ("node", "kind")}
    return [(labels | {"version": __version__}, 1.0)]


def _seconds(text: Any) -> float:
    return datetime.fromisoformat(str(text)).timestamp()


def _started(of: Figures) -> list[Sample]:
    return [({}, _seconds(of.status["started_at"]))] if of.status.get("started_at") else []


def _verdicts(of: Figures) -> list[Sample]:
    return [({"check": one.name}, float(VERDICTS.index(one.verdict))) for one in checks(of.status, of.warn_days)]


def _link(of: Figures) -> list[Sample]:
    return [({}, float(of.status["hub"]["link"] == "up"))] if of.status.get("hub") else []


def _direct_links(of: Figures) -> list[Sample]:
    links = of.status.get("direct")
    states = Counter(link["link"] for link in links.values()) if links else Counter[str]()
    return [({"state": state}, float(states[state])) for state in ("up", "down")] if links else []


def _direct_ups(of: Figures) -> list[Sample]:
    return [({"node": node}, float(one["link"] == "up")) for node, one in (of.status.get("direct") or {}).items()]


def _direct_sent(of: Figures) -> list[Sample]:
    return [({"node": node}, float(one["sent"])) for node, one in (of.status.get("direct") or {}).items()]


def _own_days(of: Figures) -> list[Sample]:
    own = of.status.get("certificate")
    return [({}, own["days_left"])] if own else []


def _partners(of: Figures) -> list[Sample]:
    if "partners" not in of.status:
        return []
    online = sum(bool(facts["online"]) for facts in of.status["partners"].values())
    return [({"state": "online"}, online), ({"state": "offline"}, len(of.status["partners"]) - online)]


def _partner_online(of: Figures) -> list[Sample]:
    return [({"node": node}, float(facts["online"])) for node, facts in of.status.get("partners", {}).items()]


def _companions(of: Figures) -> list[Sample]:
    return [({"program": name}, float(one["running"])) for name, one in of.status.get("companions", {}).items()]


def _failing_sections(of: Figures) -> list[Sample]:
    running = of.status.get("companions", {}).items()
    return [({"program": name}, float(len(one["failing"]))) for name, one in running]


def _section_events(of: Figures) -> list[Sample]:
    return [
        ({"program": name, "section": section, "event": event}, count)
        for name, one in of.status.get("companions", {}).items()
        for section, counts in sorted(one["counts"].items())
        for event, count in sorted(counts.items())
    ]


def _violations(of: Figures) -> list[Sample]:
    counts: Counter[tuple[str, str]] = Counter()
    for seen in of.status.get("violations") or ():
        counts[seen["who"], seen["what"]] += seen["count"]
    return [({"node": who, "code": what}, count) for (who, what), count in counts.items()]


def _extract_at(of: Figures) -> list[Sample]:
    last = of.status.get("extract")
    return [({}, _seconds(last["at"]))] if last else []


def _extract_status(of: Figures) -> list[Sample]:
    last = of.status.get("extract")
    return [({}, last["exit_status"])] if last else []


def _spans(of: Figures) -> list[Sample]:
    facts = of.status.get("telemetry")
    return [({"result": name}, facts[name]) for name in ("exported", "dropped", "forgotten")] if facts else []


def _telemetry_up(of: Figures) -> list[Sample]:
    facts = of.status.get("telemetry")
    return [({}, float(not facts["failures"]))] if facts else []


def _datagram_peers(of: Figures) -> Iterable[Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = of.status.get("datagrams", {}).get("peers", {})
    return found.values()


def _datagram_sums(names: Iterable[str], label: str) -> Callable[[Figures], list[Sample]]:
    """Return a function that adds up figures of all peers."""

    def samples(of: Figures) -> list[Sample]:
        if "datagrams" not in of.status:
            return []
        return [({label: name}, float(sum(one[name] for one in _datagram_peers(of)))) for name in names]

    return samples


def _datagram_slowdowns(of: Figures) -> list[Sample]:
    return [({}, float(sum(one["slowed"] for one in _datagram_peers(of))))] if "datagrams" in of.status else []


def _datagram_ignored(of: Figures) -> list[Sample]:
    if "datagrams" not in of.status:
        return []
    return [({"reason": "strangers"}, of.status["datagrams"]["strangers"]), *_datagram_sums(IGNORED, "reason")(of)]


def _datagram_paths(of: Figures) -> list[Sample]:
    if "datagrams" not in of.status:
        return []
    states = Counter(one["state"] for one in _datagram_peers(of))
    return [({"state": state}, float(states[state])) for state in ("open", "closed")]


def _rows(of: Figures) -> list[Sample]:
    return [
        ({"queue": queue, "state": state}, rows)
        for queue in ("sent", "received", "submitted")
        for state, rows in sorted(of.queues.get(queue, {}).items())
    ]


def _pieces(of: Figures) -> list[Sample]:
    return [({"queue": side}, facts["rows"]) for side, facts in sorted(of.queues.get("pieces", {}).items())]


def _figure(name: str) -> Callable[[Figures], list[Sample]]:
    return lambda of: [({}, of.queues[name])] if of.queues.get("as_of") else []


def _census_at(of: Figures) -> list[Sample]:
    return [({}, of.queues["as_of"] / 1000)] if of.queues.get("as_of") else []


def _oldest(of: Figures) -> list[Sample]:
    if not of.queues.get("as_of"):
        return []
    oldest = min((pair["oldest_at"] for pair in of.queues["pairs"]), default=of.now_ms)
    return [({}, max(0.0, (of.now_ms - oldest) / 1000))]


def _causes(of: Figures) -> list[Sample]:
    counts: Counter[str] = Counter()
    for row in of.causes.get("rows", ()):
        counts[row["cause"]] += row["rows"]
    return [({"cause": cause}, rows) for cause, rows in sorted(counts.items())]


def _pairs(name: str) -> Callable[[Figures], list[Sample]]:
    def samples(of: Figures) -> list[Sample]:
        pairs = of.queues.get("pairs", ())
        return [({"source": one["source"], "target": one["target"]}, one[name]) for one in pairs]

    return samples


EVENTS = "; ".join(f"{name}: {meaning}" for name, meaning in COUNTERS.items())
# Name | kind | help | samples
METRICS = (
    Metric("semq_node_info", "info", "The node, its kind and its version.", _info),
    Metric("semq_start_time_seconds", "gauge", "Time of the start of the node.", _started),
    Metric("semq_check", "gauge", "0 ok, 1 warning, 2 failing; by health check.", _verdicts),
    Metric("semq_link_up", "gauge", "1 if the link to the hub is up.", _link),
    Metric("semq_direct_links", "gauge", "Direct links with partners, by state.", _direct_links),
    Metric("semq_partners", "gauge", "Partners by presence, as the hub reports it.", _partners),
    Metric("semq_companion_up", "gauge", "1 if the program beside the node runs.", _companions),
    Metric("semq_companion_failing_sections", "gauge", "Folders or webhooks that fail now.", _failing_sections),
    Metric("semq_companion_events_total", "counter", "Requests of webhooks by outcome (acknowledged: answered 2xx; "
           "refused: the request was refused; failed: no answer, or a temporary refusal; set_aside: a "
           "document was parked; dropped: an event was given up), since the program began.", _section_events),
    Metric("semq_certificate_days_left", "gauge", "Days until the node's own certificate ends.", _own_days),
    Metric("semq_events_total", "counter", f"Events counted by the engine since it began ({EVENTS}).",
           _each("counters", "event")),
    Metric("semq_queue_rows", "gauge", "Rows of the queues at the last census, by state.", _rows),
    Metric("semq_piece_rows", "gauge", "Pieces of documents at the last census, by queue.", _pieces),
    Metric("semq_queue_oldest_seconds", "gauge", "Age of the oldest document that has not ended.", _oldest),
    Metric("semq_failed_rows", "gauge", "Documents that failed and wait for a person.", _figure("failed")),
    Metric("semq_stuck_rows", "gauge", "Documents that have not ended in time, by cause.", _causes),
    Metric("semq_census_time_seconds", "gauge", "Time of the last count of the rows of the queues.", _census_at),
    Metric("semq_sql_submissions", "gauge", "Documents submitted by SQL and not accepted.",
           _each("sql_submissions", "state")),
    Metric("semq_extract_time_seconds", "gauge", "End of the last nightly extract.", _extract_at),
    Metric("semq_extract_exit_status", "gauge", "Exit status of the last nightly extract.", _extract_status),
    Metric("semq_telemetry_spans_total", "counter", "Spans by result (exported, dropped), and documents "
           "forgotten before their spans ended, because too many were in progress.", _spans),
    Metric("semq_telemetry_spans_waiting", "gauge", "Spans that wait for the collector.",
           _of("telemetry", "waiting")),
    Metric("semq_telemetry_up", "gauge", "1 if the collector took the last spans.", _telemetry_up),
    Metric("semq_datagram_documents_total", "counter", "Documents with @Reliable=0: sent and received as datagrams; "
           "by the connection because of their size, a closed path, or the rate; of these dropped, without room there.",
           _datagram_sums(BEST_EFFORT, "result")),
    Metric("semq_datagram_lost_documents", "gauge", "Documents sent as datagrams that have not arrived: lost (here), "
           "and lost_there, as the peers report.", _datagram_sums(("lost", "lost_there"), "way")),
    Metric("semq_datagram_slowdowns_total", "counter", "Halvings of the rate of datagrams because of reported loss.",
           _datagram_slowdowns),
    Metric("semq_datagrams_ignored_total", "counter", "Datagrams that were ignored, by reason.", _datagram_ignored),
    Metric("semq_datagram_paths", "gauge", "Peers with a channel for datagrams, by the state of the path.",
           _datagram_paths),
    Metric("semq_store_open", "gauge", "1 if the store is open.", _one("store_open")),
    Metric("semq_store_waiting_works", "gauge", "Pieces of work that wait for the writer.", _one("waiting_work")),
    Metric("semq_store_units_total", "counter", "Transactions of the writer.", _of("store", "units")),
    Metric("semq_store_went_back_total", "counter", "Openings of the store that found commits missing.",
           _of("store", "went_back")),
    Metric("semq_store_works_total", "counter", "Pieces of work that the writer has done.", _of("store", "works")),
    Metric("semq_store_works_failed_total", "counter", "Pieces of work that failed.", _of("store", "failed")),
    Metric("semq_store_rows_total", "counter", "Rows written.", _of("store", "rows")),
    Metric("semq_store_load_seconds_total", "counter", "Time spent on reading rows.", _of("store", "load_s")),
    Metric("semq_store_decide_seconds_total", "counter", "Time spent on decisions.", _of("store", "decide_s")),
    Metric("semq_store_write_seconds_total", "counter", "Time spent on writing and committing.",
           _of("store", "write_s")),
    *(
        Metric(f"semq_amqp_{name}_total", "counter", f"AMQP endpoint: {name.replace('_', ' ')}.", _of("amqp", name))
        for name in sorted(SUMS)
    ),
    *(
        Metric(f"semq_amqp_{name}", "gauge", f"AMQP endpoint: {name.replace('_', ' ')} now.", _of("amqp", name))
        for name in ("connections", "channels", "queues", "messages_ready", "messages_unacked", "memory_bytes",
                     "store_pending_bytes")
    ),
    Metric("semq_partner_online", "gauge", "1 if the hub says that the partner is online.", _partner_online, True),
    Metric("semq_direct_link_up", "gauge", "1 if the direct link with the partner is up.", _direct_ups, True),
    Metric("semq_direct_documents_total", "counter", "Documents sent by the direct link with the partner, copies too, "
           "since the engine began.", _direct_sent, True),
    Metric("semq_partner_certificate_days_left", "gauge", "At a hub: days until the certificate of an institution "
           "ends.", _each("certificates", "node"), True),
    Metric("semq_pair_waiting_rows", "gauge", "Documents that have not ended, by pair.", _pairs("rows"), True),
    Metric("semq_pair_waiting_bytes", "gauge", "Their bytes.", _pairs("bytes"), True),
    Metric("semq_pair_late_rows", "gauge", "Those that are later than protocol.overdue_s.", _pairs("late"), True),
    Metric("semq_partner_violations", "gauge", "Violations of the last day, by peer and code.", _violations, True),
)  # fmt: skip
LATENCY = "semq_document_latency_seconds"
LATENCY_HELP = "Time from the acceptance of a document, or at its receiver from its recording, to a later stage."


def render(of: Figures, *, detailed: bool = False, openmetrics: bool = False) -> str:
    """Return the families in the text format of Prometheus (0.0.4), or in OpenMetrics (1.0.0); ``detailed``: also those
    that grow with the number of institutions."""
    from prometheus_client import CollectorRegistry, exposition, metrics_core
    from prometheus_client import openmetrics as om

    families: list[metrics_core.Metric] = []
    for metric in METRICS:
        found = list(metric.samples(of)) if detailed or not metric.detailed else []
        if found:
            name = metric.name.removesuffix("_total").removesuffix("_info")
            family = metrics_core.Metric(name, metric.help, metric.kind)
            for labels, value in found:
                family.add_sample(metric.name, dict(labels), float(value))
            families.append(family)
    if of.latency:
        histogram = metrics_core.HistogramMetricFamily(LATENCY, LATENCY_HELP, labels=("stage",))
        for stage, observed in of.latency.items():
            buckets = zip((*map(str, BOUNDS_S), "+Inf"), accumulate(observed.counts), strict=True)
            histogram.add_metric((stage,), buckets=list(buckets), sum_value=observed.sum_s)
        families.append(histogram)

    class FamiliesCollector:
        def collect(self) -> Iterable[metrics_core.Metric]:
            return families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(FamiliesCollector())
    generate = om.exposition.generate_latest if openmetrics else exposition.generate_latest
    return generate(registry).decode()
