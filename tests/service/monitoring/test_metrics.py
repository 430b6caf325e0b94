"""Figures for Prometheus."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import convert
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser
from prometheus_client.parser import text_string_to_metric_families as read_text

from platform_node.node import HubNode
from semq.answers.status import AmqpFigures, NodeStatus
from semq.counters import COUNTERS
from semq.engine.latency import BOUNDS_S, Latency, Stage
from semq.service.monitoring.metrics import LATENCY, METRICS, SUMS, Figures, render
from tests.service.inprocess import InProcess, ask, linked
from tests.service.monitoring.test_health import VIOLATIONS, status_with
from tests.waiting import until

QUEUES = {
    "as_of": 9_000, "sent": {"SS_SENT": 3}, "received": {"NEW": 1}, "submitted": {"refused": 2}, "failed": 2,
    "stuck": 1,
    "pieces": {"sent": {"rows": 2}},
    "pairs": [
        {"source": "", "target": "1.56001", "online": False, "rows": 3, "bytes": 30, "late": 1, "oldest_at": 4_000},
    ],
    "inboxes": [{"inbox": "semq.inbox.web", "rows": 1, "bytes": 9, "late": 0, "oldest_at": 7_000}],
    "oldest": {"at": 4_000, "where": "for 1.56001"},
}  # fmt: skip
# Families that only some nodes have, or that are empty at first
OPTIONAL = {
    "semq_direct_links", "semq_direct_link_up", "semq_direct_documents_total", "semq_companion_up",
    "semq_companion_failing_sections", "semq_companion_events_total", "semq_extract_time_seconds",
    "semq_extract_exit_status", "semq_telemetry_spans_total", "semq_telemetry_spans_waiting", "semq_telemetry_up",
    "semq_datagram_documents_total", "semq_datagram_lost_documents", "semq_datagram_slowdowns_total",
    "semq_datagrams_ignored_total", "semq_datagram_paths", "semq_partner_violations", "semq_stuck_rows",
    "semq_pair_waiting_rows", "semq_pair_waiting_bytes", "semq_pair_late_rows", "semq_queue_rows", "semq_piece_rows",
    "semq_file_certificate_days_left",
}  # fmt: skip
CAUSES = {"rows": [{"cause": "AWAY", "rows": 2}, {"cause": "AWAY", "rows": 1}]}


def figures_of(status: dict[str, Any], latency: Latency | None = None) -> Figures:
    histograms = latency.histograms if latency is not None else {}
    return Figures(convert(status, NodeStatus), 14.0, 10_000, QUEUES, CAUSES, histograms)


def figures(**parts: Any) -> Figures:
    return figures_of(status_with(**parts))


def read_openmetrics(text: str) -> Iterator[Metric]:
    families: Iterator[Metric] = parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return families


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Return values by name and labels."""
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in read_text(text)
        for sample in family.samples
    }


def test_each_figure_is_in_the_text_with_its_value() -> None:
    result = samples(render(figures(), detailed=True))
    assert result[("semq_certificate_days_left",)] == 61.5
    assert result[("semq_check", "check=link")] == 0
    assert result[("semq_events_total", "event=accepted")] == 3
    assert result[("semq_partners", "state=offline")] == 1
    assert result[("semq_queue_rows", "queue=sent", "state=SS_SENT")] == 3
    assert result[("semq_queue_oldest_seconds",)] == result[("semq_offline_oldest_seconds",)] == 6
    assert (result[("semq_inbox_rows",)], result[("semq_inbox_oldest_seconds",)]) == (1, 3)
    assert result[("semq_offline_rows",)] == 3
    assert result[("semq_stuck_rows", "cause=AWAY")] == 3
    assert result[("semq_pair_late_rows", "source=", "target=1.56001")] == 1
    assert result[("semq_amqp_connections",)] == 1


def test_companions_report_failing_sections_and_counts() -> None:
    erp = {"failures": 3, "since": 1, "error": "status 500", "is_paused": False}
    state = {"running": True, "starts": 1, "exit": None, "failing": {"erp": erp}, "counts": {"erp": {"failed": 3}}}
    result = samples(render(figures(companions={"webhooks": state}), detailed=False))
    assert result[("semq_companion_up", "program=webhooks")] == 1
    assert result[("semq_companion_failing_sections", "program=webhooks")] == 1
    assert result[("semq_companion_events_total", "event=failed", "program=webhooks", "section=erp")] == 3


def test_every_family_has_samples_where_its_part_of_the_status_exists() -> None:
    webhooks = {"running": True, "failing": {}, "counts": {"erp": {"failed": 3}}}
    parts: dict[str, Any] = {
        "direct": {"1.1": {"link": "up", "last_error": "", "sent": 7}}, "certificates": {"1.56001": 3.0},
        "companions": {"webhooks": webhooks}, "extract": {"exit_status": 0, "at": "2031-01-01", "output": ""},
        "telemetry": dict.fromkeys(("exported", "dropped", "forgotten", "waiting", "failures"), 0),
        "datagrams": {"strangers": 0, "peers": {"1.1": {"state": "open"}}},
    }  # fmt: skip
    files = [{"setting": "http.certificate", "days_left": 3.0, "fault": "", "not_after": "2031-01-01"}]
    source = figures_of(status_with(**parts) | {"violations": VIOLATIONS, "credential_files": files})
    of_parts = {metric.name for metric in METRICS if list(metric.samples(source))}
    assert of_parts >= OPTIONAL


def test_hostile_names_stay_values_of_labels() -> None:
    result = samples(render(figures(certificates={'1."\n\\': 3.0}), detailed=True))
    assert result[("semq_partner_certificate_days_left", 'node=1."\n\\')] == 3


def test_only_the_detailed_figures_grow_with_the_partners() -> None:
    many = {f"1.{number}": {"online": True} for number in range(10_000, 30_000)}
    plain = render(figures(partners=many), detailed=False)
    assert len(plain.splitlines()) < 200
    assert "semq_partner_online" not in plain
    assert render(figures(partners=many), detailed=True).count("semq_partner_online{") == len(many) + 1


def test_a_partner_whose_presence_is_unknown_is_neither_online_nor_offline() -> None:
    partners = {"1.1": {"online": True}, "1.2": {"online": None}, "1.3": {"online": None}}
    text = render(figures(partners=partners | {"1.56001": {"online": False}}), detailed=True)
    states = [samples(text)[("semq_partners", f"state={state}")] for state in ("online", "offline", "unknown")]
    assert states == [1, 1, 2]
    assert 'node="1.2"' not in text


def test_direct_links_are_counted_by_state_and_in_detail_by_documents() -> None:
    links = {"1.1": {"link": "up", "last_error": "", "sent": 7}, "1.2": {"link": "down", "last_error": "", "sent": 0}}
    result = samples(render(figures(direct=links), detailed=True))
    assert result["semq_direct_links", "state=up"] == result["semq_direct_links", "state=down"] == 1
    assert [result["semq_direct_link_up", f"node={node}"] for node in links] == [1, 0]
    assert [result["semq_direct_documents_total", f"node={node}"] for node in links] == [7, 0]
    assert "semq_direct" not in render(figures(), detailed=True)
    assert "semq_direct_link_up" not in render(figures(direct=links))


def test_datagrams_are_summed_over_the_peers() -> None:
    peer = {"sent": 5, "received": 4, "lost": 1, "lost_there": 2, "slowed": 6, "too_large": 3, "forged": 1}
    peers = {"1.1": {"state": "open", **peer}, "1.2": {"state": "closed", **peer}}
    result = samples(render(figures(datagrams={"port": 5671, "strangers": 7, "peers": peers})))
    results = {name: result["semq_datagram_documents_total", f"result={name}"] for name in ("sent", "too_large")}
    assert results == {"sent": 10, "too_large": 6}
    assert result["semq_datagram_lost_documents", "way=lost_there"] == 4
    assert result[("semq_datagram_slowdowns_total",)] == 12
    ignored = {name: result["semq_datagrams_ignored_total", f"reason={name}"] for name in ("forged", "strangers")}
    assert ignored == {"forged": 2, "strangers": 7}
    assert result["semq_datagram_paths", "state=open"] == result["semq_datagram_paths", "state=closed"] == 1
    assert "semq_datagram" not in render(figures())


def test_spans_are_counted_by_their_result() -> None:
    telemetry = {"exported": 5, "dropped": 2, "forgotten": 1, "waiting": 4, "failures": 3, "failing_since": 1}
    result = samples(render(figures(telemetry=telemetry | {"last_error": "away"})))
    results = {
        name: result["semq_telemetry_spans_total", f"result={name}"] for name in ("exported", "dropped", "forgotten")
    }
    assert results == {"exported": 5, "dropped": 2, "forgotten": 1}
    assert (result[("semq_telemetry_spans_waiting",)], result[("semq_telemetry_up",)]) == (4, 0)
    assert result["semq_check", "check=telemetry"] == 1
    assert "semq_telemetry" not in render(figures())


def test_openmetrics_is_read_by_its_own_parser() -> None:
    latency = Latency()
    latency.observe(Stage.STORED, 0.004, 3)
    latency.observe(Stage.STORED, 10**6)
    status = status_with(certificates={"1.56001": 3.0}) | {
        "violations": VIOLATIONS,
        "started_at": "2031-01-01T00:00:00+00:00",
    }
    source = figures_of(status, latency)
    families = {family.name: family for family in read_openmetrics(render(source, detailed=True, openmetrics=True))}
    assert families[LATENCY].type == "histogram"
    stored = [sample for sample in families[LATENCY].samples if sample.labels["stage"] == "stored"]
    values = {(sample.name.removeprefix(LATENCY), sample.labels.get("le")): sample.value for sample in stored}
    assert values["_bucket", str(BOUNDS_S[0])] == 3
    assert values["_bucket", str(BOUNDS_S[-1])] == 3
    assert values["_bucket", "+Inf"] == values["_count", None] == 4
    assert values["_sum", None] == pytest.approx(10**6 + 0.012)
    assert families["semq_events"].type == "counter"


def test_without_a_database_the_checks_are_reported() -> None:
    result = samples(render(Figures(NodeStatus(node="1.10008", kind="local", store_open=False), 14.0, 0)))
    assert result[("semq_check", "check=store")] == 2


async def test_a_running_node_reports_its_figures_and_all_figures_of_its_endpoint(inprocess: InProcess) -> None:
    hub: HubNode = await inprocess.secure_hub("[tls]\ncertificate_days = 10\n")
    a = await inprocess.secure_local("10008", hub)
    await linked(a)
    at_a, at_hub = await inprocess.client(a), await inprocess.client(hub)
    answer = samples((await ask(at_a, "node.metrics", {"detailed": True}))["result"]["text"])
    assert 9.9 < answer[("semq_certificate_days_left",)] <= 10
    assert answer[("semq_link_up",)] == 1
    # Prometheus does not see the first event of a counter that begins with 1.
    assert {key[1] for key in answer if key[0] == "semq_events_total"} == {f"event={name}" for name in COUNTERS}
    names = {name for name, *_ in answer}
    endpoint = AmqpFigures.__struct_fields__
    assert {f"semq_amqp_{name}{'_total' if name in SUMS else ''}" for name in endpoint} <= names

    async def counted_families() -> set[str]:  # the first census ends some time after the start
        found = set()
        for client in (at_a, at_hub):
            text = (await ask(client, "node.metrics", {"detailed": True, "format": "openmetrics"}))["result"]["text"]
            families = {family.name for family in read_openmetrics(text)}
            if "semq_queue_oldest_seconds" not in families:
                return set()
            found |= families | {name for name, *_ in samples(text)}
        return found

    at_both = names | await until(counted_families)
    assert {"semq_node_info", "semq_partner_certificate_days_left"} <= at_both
    # A row of METRICS that reads a wrong name would have no samples.
    assert {metric.name for metric in METRICS} - at_both <= OPTIONAL
