"""Figures of a node for Prometheus, derived from ``node.status``, ``queue.census``, ``stuck.causes`` and latencies.

Labels have few values: checks, states, causes, events, configured sections. Only the detailed answer has figures per
institution. ``render`` takes so long that it is called in a thread.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any, NamedTuple

from msgspec import Struct, field

from semq import __version__
from semq.answers.status import NodeStatus, PathState
from semq.counters import COUNTERS
from semq.engine.latency import BOUNDS_S, Histogram, Stage
from semq.service.monitoring.health import VERDICTS, checks

Sample = tuple[Mapping[str, str], float]
# Figures of the AMQP endpoint that are sums since the start; the others are current values.
SUMS = frozenset(
    "connections_accepted connections_refused handshakes_failed logins_refused published delivered alarms".split()
)
PRESENCE = {True: "online", False: "offline", None: "unknown"}  # ``online`` of a partner in ``node.status`` | label

# Figures of datagrams: documents by result, and ignored datagrams by reason
BEST_EFFORT = "sent received too_large not_open too_fast no_room".split()
IGNORED = "forged repeated unreadable full".split()


class Figures(Struct, frozen=True):
    """The values from which the families (metrics of one name) are made."""

    status: NodeStatus
    warn_days: float  #: a certificate that ends within this number of days causes a warning
    now_ms: int
    queues: Mapping[str, Any] = field(default_factory=dict)  #: answer of ``queue.census``
    causes: Mapping[str, Any] = field(default_factory=dict)  #: answer of ``stuck.causes``
    latency: Mapping[Stage, Histogram] = field(default_factory=dict)


Groups = Callable[[Figures], Sequence[Mapping[str, Any]] | None]


class Metric(NamedTuple):
    """A row of ``METRICS``."""

    name: str
    kind: str  #: gauge, counter (its name ends with ``_total``) or info (``_info``)
    help: str
    samples: Callable[[Figures], Iterable[Sample]]
    detailed: bool = False  #: True: only the detailed answer has the family


def _number(name: str) -> Callable[[Figures], list[Sample]]:
    """Return a function that makes a sample from a number of the status."""
    return lambda figures: _sample(getattr(figures.status, name))


def _numbers(part: str, label: str) -> Callable[[Figures], list[Sample]]:
    """Return a function that makes a sample from each entry of a part of the status."""
    return lambda figures: [({label: name}, value) for name, value in (getattr(figures.status, part) or {}).items()]


def _number_in(part: str, name: str) -> Callable[[Figures], list[Sample]]:
    """Return a function that makes a sample from a number in a part of the status."""
    return lambda figures: _sample(getattr(getattr(figures.status, part), name, None))


def _sample(value: float | None) -> list[Sample]:
    return [] if value is None else [({}, float(value))]


def _info(figures: Figures) -> list[Sample]:
    return [({"node": figures.status.node, "kind": figures.status.kind, "version": __version__}, 1.0)]


def _seconds(text: object) -> float:
    return datetime.fromisoformat(str(text)).timestamp()


def _started(figures: Figures) -> list[Sample]:
    return [({}, _seconds(figures.status.started_at))] if figures.status.started_at else []


def _verdicts(figures: Figures) -> list[Sample]:
    return [
        ({"check": check.name}, float(VERDICTS.index(check.verdict)))
        for check in checks(figures.status, figures.warn_days)
    ]


def _link(figures: Figures) -> list[Sample]:
    return [({}, float(figures.status.link.is_up))] if figures.status.link else []


def _direct_links(figures: Figures) -> list[Sample]:
    links = figures.status.direct
    states = Counter(link.link for link in links.values()) if links else Counter[str]()
    return [({"state": state}, float(states[state])) for state in ("up", "down")] if links else []


def _direct_ups(figures: Figures) -> list[Sample]:
    return [({"node": node}, float(link.is_up)) for node, link in (figures.status.direct or {}).items()]


def _direct_sent(figures: Figures) -> list[Sample]:
    return [({"node": node}, float(link.sent)) for node, link in (figures.status.direct or {}).items()]


def _own_days(figures: Figures) -> list[Sample]:
    own = figures.status.certificate
    return [({}, own.days_left)] if own else []


def _file_days(figures: Figures) -> list[Sample]:
    rows = figures.status.credential_files or ()
    return [({"setting": row.setting}, row.days_left) for row in rows if row.days_left is not None]


def _partners(figures: Figures) -> list[Sample]:
    if figures.status.partners is None:
        return []
    states = Counter(PRESENCE[partner.online] for partner in figures.status.partners.values())
    return [({"state": state}, states[state]) for state in PRESENCE.values()]


def _partner_online(figures: Figures) -> list[Sample]:
    partners = figures.status.partners or {}
    return [({"node": node}, float(partner.online)) for node, partner in partners.items() if partner.online is not None]


def _companions(figures: Figures) -> list[Sample]:
    return [({"program": name}, float(state.running)) for name, state in (figures.status.companions or {}).items()]


def _failing_sections(figures: Figures) -> list[Sample]:
    companions = (figures.status.companions or {}).items()
    return [({"program": name}, float(len(state.failing))) for name, state in companions]


def _section_events(figures: Figures) -> list[Sample]:
    return [
        ({"program": name, "section": section, "event": event}, count)
        for name, state in (figures.status.companions or {}).items()
        for section, counts in sorted(state.counts.items())
        for event, count in sorted(counts.items())
    ]


def _violations(figures: Figures) -> list[Sample]:
    counts: Counter[tuple[str, str]] = Counter()
    for violation in figures.status.violations or ():
        counts[violation.who, violation.what] += violation.count
    return [({"node": node, "code": code}, count) for (node, code), count in counts.items()]


def _extract_at(figures: Figures) -> list[Sample]:
    last = figures.status.extract
    return [({}, _seconds(last.at))] if last else []


def _extract_status(figures: Figures) -> list[Sample]:
    last = figures.status.extract
    return [({}, last.exit_status)] if last else []


def _spans(figures: Figures) -> list[Sample]:
    spans = figures.status.telemetry
    return [({"result": name}, getattr(spans, name)) for name in ("exported", "dropped", "forgotten")] if spans else []


def _telemetry_up(figures: Figures) -> list[Sample]:
    spans = figures.status.telemetry
    return [({}, float(not spans.failures))] if spans else []


def _datagram_peers(figures: Figures) -> Iterable[PathState]:
    return figures.status.datagrams.peers.values() if figures.status.datagrams is not None else ()


def _datagram_sums(names: Iterable[str], label: str) -> Callable[[Figures], list[Sample]]:
    """Return a function that makes a sample for each name: the sum over all peers."""

    def samples(figures: Figures) -> list[Sample]:
        if figures.status.datagrams is None:
            return []
        return [({label: name}, float(sum(getattr(peer, name) for peer in _datagram_peers(figures)))) for name in names]

    return samples


def _datagram_slowdowns(figures: Figures) -> list[Sample]:
    return [({}, float(sum(peer.slowed for peer in _datagram_peers(figures))))] if figures.status.datagrams else []


def _datagram_ignored(figures: Figures) -> list[Sample]:
    if figures.status.datagrams is None:
        return []
    return [
        ({"reason": "strangers"}, figures.status.datagrams.strangers),
        *_datagram_sums(IGNORED, "reason")(figures),
    ]


def _datagram_paths(figures: Figures) -> list[Sample]:
    if figures.status.datagrams is None:
        return []
    states = Counter(peer.state for peer in _datagram_peers(figures))
    return [({"state": state}, float(states[state])) for state in ("open", "closed")]


def _events(figures: Figures) -> list[Sample]:
    # Counters begin with a sample of 0: Prometheus cannot see the first event of a counter that begins with 1.
    counters = figures.status.counters
    return [({"event": name}, counters.get(name, 0)) for name in COUNTERS] if counters is not None else []


def _rows(figures: Figures) -> list[Sample]:
    return [
        ({"queue": queue, "state": state}, rows)
        for queue in ("sent", "received", "submitted")
        for state, rows in sorted(figures.queues.get(queue, {}).items())
    ]


def _pieces(figures: Figures) -> list[Sample]:
    return [({"queue": side}, facts["rows"]) for side, facts in sorted(figures.queues.get("pieces", {}).items())]


def _census_number(name: str) -> Callable[[Figures], list[Sample]]:
    return lambda figures: [({}, figures.queues[name])] if figures.queues.get("as_of") else []


def _census_at(figures: Figures) -> list[Sample]:
    return [({}, figures.queues["as_of"] / 1000)] if figures.queues.get("as_of") else []


def _oldest(figures: Figures) -> list[Sample]:
    if not figures.queues.get("as_of"):
        return []
    oldest = figures.queues["oldest"]
    return [({}, _age_s(figures, oldest["at"] if oldest else figures.now_ms))]


def _age_s(figures: Figures, since_ms: int) -> float:
    return max(0.0, (figures.now_ms - since_ms) / 1000)


def _inboxes(figures: Figures) -> Sequence[Mapping[str, object]] | None:
    """Return the inboxes with unread documents; None at a hub and before the first census."""
    is_counted = figures.queues.get("as_of") and figures.status.kind == "local"
    return figures.queues["inboxes"] if is_counted else None


def _offline_pairs(figures: Figures) -> Sequence[Mapping[str, object]] | None:
    """Return the pairs whose target is offline; None before the first census."""
    if not figures.queues.get("as_of"):
        return None
    return [pair for pair in figures.queues["pairs"] if pair["online"] is False]


def _rows_in(groups: Groups) -> Callable[[Figures], list[Sample]]:
    """Return a function that makes a sample from the number of documents in all groups."""

    def samples(figures: Figures) -> list[Sample]:
        found = groups(figures)
        return [] if found is None else [({}, sum(group["rows"] for group in found))]

    return samples


def _oldest_in(groups: Groups) -> Callable[[Figures], list[Sample]]:
    """Return a function that makes a sample from the age of the oldest document in all groups."""

    def samples(figures: Figures) -> list[Sample]:
        found = groups(figures)
        if found is None:
            return []
        return [({}, _age_s(figures, min((group["oldest_at"] for group in found), default=figures.now_ms)))]

    return samples


def _causes(figures: Figures) -> list[Sample]:
    counts: Counter[str] = Counter()
    for row in figures.causes.get("rows", ()):
        counts[row["cause"]] += row["rows"]
    return [({"cause": cause}, rows) for cause, rows in sorted(counts.items())]


def _pairs(name: str) -> Callable[[Figures], list[Sample]]:
    def samples(figures: Figures) -> list[Sample]:
        pairs = figures.queues.get("pairs", ())
        return [({"source": pair["source"], "target": pair["target"]}, pair[name]) for pair in pairs]

    return samples


EVENTS = "; ".join(f"{name}: {meaning}" for name, meaning in COUNTERS.items())
METRICS = (
    Metric("semq_node_info", "info", "The node, its kind and its version.", _info),
    Metric("semq_start_time_seconds", "gauge", "Time of the start of the node.", _started),
    Metric("semq_check", "gauge", "0 ok, 1 warning, 2 failing; by health check.", _verdicts),
    Metric("semq_link_up", "gauge", "1 if the link to the hub is up.", _link),
    Metric("semq_direct_links", "gauge", "Direct links with partners, by state.", _direct_links),
    Metric("semq_partners", "gauge", "Partners by presence, as the hub reports it (unknown: no link to the hub).",
           _partners),
    Metric("semq_companion_up", "gauge", "1 if the program beside the node runs.", _companions),
    Metric("semq_companion_failing_sections", "gauge", "Folders or webhooks that fail now.", _failing_sections),
    Metric("semq_companion_events_total", "counter", "Requests of webhooks by outcome (acknowledged: answered 2xx; "
           "refused: the request was refused; failed: no answer, or a temporary refusal; set_aside: a "
           "document was parked; dropped: an event was given up), since the program began.", _section_events),
    Metric("semq_certificate_days_left", "gauge", "Days until the node's own certificate ends.", _own_days),
    Metric("semq_file_certificate_days_left", "gauge", "Days until a certificate ends that a file of the configuration "
           "contains (http.certificate, webhooks.0.trust …).", _file_days),
    Metric("semq_events_total", "counter", f"Events counted by the engine since it began ({EVENTS}).",
           _events),
    Metric("semq_queue_rows", "gauge", "Rows of the queues at the last census, by state.", _rows),
    Metric("semq_piece_rows", "gauge", "Pieces of documents at the last census, by queue.", _pieces),
    Metric("semq_queue_oldest_seconds", "gauge", "Age of the oldest document that has not ended, also in an inbox.",
           _oldest),
    Metric("semq_inbox_rows", "gauge", "Documents in the inboxes that no application has acknowledged.",
           _rows_in(_inboxes)),
    Metric("semq_inbox_oldest_seconds", "gauge", "Age of the oldest of them; 0 if there is none.",
           _oldest_in(_inboxes)),
    Metric("semq_offline_rows", "gauge", "Documents that wait for institutions that are offline.",
           _rows_in(_offline_pairs)),
    Metric("semq_offline_oldest_seconds", "gauge", "Age of the oldest of them; 0 if there is none.",
           _oldest_in(_offline_pairs)),
    Metric("semq_failed_rows", "gauge", "Documents that failed and wait for an operator.", _census_number("failed")),
    Metric("semq_stuck_rows", "gauge", "Documents that have not ended in time, by cause.", _causes),
    Metric("semq_census_time_seconds", "gauge", "Time of the last count of the rows of the queues.", _census_at),
    Metric("semq_sql_submissions", "gauge", "Documents submitted by SQL and not accepted.",
           _numbers("sql_submissions", "state")),
    Metric("semq_extract_time_seconds", "gauge", "End of the last nightly extract.", _extract_at),
    Metric("semq_extract_exit_status", "gauge", "Exit status of the last nightly extract.", _extract_status),
    Metric("semq_telemetry_spans_total", "counter", "Spans by result (exported, dropped), and documents "
           "forgotten before their spans ended, because too many were in progress.", _spans),
    Metric("semq_telemetry_spans_waiting", "gauge", "Spans that wait for the collector.",
           _number_in("telemetry", "waiting")),
    Metric("semq_telemetry_up", "gauge", "0 if the collector did not accept the last spans, else 1.", _telemetry_up),
    Metric("semq_datagram_documents_total", "counter", "Documents with @Reliable=0: sent and received as datagrams; "
           "not sent as datagrams because of their size (too_large), a closed path (not_open), or the rate (too_fast); "
           "no_room: the part of these that was dropped, because the connection had no room either.",
           _datagram_sums(BEST_EFFORT, "result")),
    Metric("semq_datagram_lost_documents", "gauge", "Documents sent as datagrams that have not arrived: lost (on the "
           "way to this node), and lost_there (on the way to the peers, which report it).",
           _datagram_sums(("lost", "lost_there"), "way")),
    Metric("semq_datagram_slowdowns_total", "counter", "Halvings of the rate of datagrams because of reported loss.",
           _datagram_slowdowns),
    Metric("semq_datagrams_ignored_total", "counter", "Datagrams that were ignored, by reason.", _datagram_ignored),
    Metric("semq_datagram_paths", "gauge", "Peers with a channel for datagrams, by the state of the path.",
           _datagram_paths),
    Metric("semq_store_open", "gauge", "1 if the store is open.", _number("store_open")),
    Metric("semq_store_waiting_works", "gauge", "Pieces of work that wait for the writer.", _number("waiting_work")),
    Metric("semq_store_units_total", "counter", "Transactions of the writer.", _number_in("store", "units")),
    Metric("semq_store_went_back_total", "counter", "Openings of the store that found commits missing.",
           _number_in("store", "went_back")),
    Metric("semq_store_works_total", "counter", "Pieces of work that the writer has done.",
           _number_in("store", "works")),
    Metric("semq_store_works_failed_total", "counter", "Pieces of work that failed.", _number_in("store", "failed")),
    Metric("semq_store_rows_total", "counter", "New rows written.", _number_in("store", "rows")),
    Metric("semq_store_load_seconds_total", "counter", "Time spent on reading rows.", _number_in("store", "load_s")),
    Metric("semq_store_decide_seconds_total", "counter", "Time spent on decisions.", _number_in("store", "decide_s")),
    Metric("semq_store_write_seconds_total", "counter", "Time spent on writing and committing.",
           _number_in("store", "write_s")),
    *(
        Metric(f"semq_amqp_{name}_total", "counter", f"AMQP endpoint: {name.replace('_', ' ')}.",
               _number_in("amqp", name))
        for name in sorted(SUMS)
    ),
    *(
        Metric(f"semq_amqp_{name}", "gauge", f"AMQP endpoint: {name.replace('_', ' ')} now.", _number_in("amqp", name))
        for name in ("connections", "channels", "queues", "messages_ready", "messages_unacked", "memory_bytes",
                     "store_pending_bytes")
    ),
    Metric("semq_broker_departures_total", "counter", "Messages of applications' queues and exchanges that left "
           "without a consumer, by way.", _numbers("departures", "way")),
    Metric("semq_partner_online", "gauge", "1 if the partner is online, as the hub reports it; absent if unknown.",
           _partner_online, True),
    Metric("semq_direct_link_up", "gauge", "1 if the direct link with the partner is up.", _direct_ups, True),
    Metric("semq_direct_documents_total", "counter", "Documents sent over the direct link with the partner, repeats "
           "included, since the engine began.", _direct_sent, True),
    Metric("semq_partner_certificate_days_left", "gauge", "At a hub: days until the certificate of an institution "
           "ends.", _numbers("certificates", "node"), True),
    Metric("semq_pair_waiting_rows", "gauge", "Documents that have not ended, by pair.", _pairs("rows"), True),
    Metric("semq_pair_waiting_bytes", "gauge", "Bytes of the documents that have not ended, by pair.",
           _pairs("bytes"), True),
    Metric("semq_pair_late_rows", "gauge", "Documents that have not ended within protocol.overdue_s, by pair.",
           _pairs("late"), True),
    Metric("semq_partner_violations", "gauge", "Violations of the last day, by peer and code.", _violations, True),
)  # fmt: skip
LATENCY = "semq_document_latency_seconds"
LATENCY_HELP = "Time from the acceptance of a document, or at its receiver from its recording, to a later stage."


def render(figures: Figures, *, detailed: bool = False, openmetrics: bool = False) -> str:
    """Return the families in the text format of Prometheus (0.0.4), or in OpenMetrics (1.0.0)."""
    from prometheus_client import CollectorRegistry, exposition, metrics_core
    from prometheus_client import openmetrics as om

    families: list[metrics_core.Metric] = []
    for metric in METRICS:
        samples = list(metric.samples(figures)) if detailed or not metric.detailed else []
        if samples:
            name = metric.name.removesuffix("_total").removesuffix("_info")
            family = metrics_core.Metric(name, metric.help, metric.kind)
            for labels, value in samples:
                family.add_sample(metric.name, dict(labels), float(value))
            families.append(family)
    if figures.latency:
        histogram = metrics_core.HistogramMetricFamily(LATENCY, LATENCY_HELP, labels=("stage",))
        for stage, observed in figures.latency.items():
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
