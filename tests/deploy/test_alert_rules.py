"""Each alert rule fires when it should, and stays silent at healthy nodes, with the series that nodes really export."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest
import yaml

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.engine.latency import Latency, Stage
from semq.service.monitoring.metrics import render
from spark_reconcile.report.metrics import metrics as reconciliation_metrics
from spark_reconcile.report.work import PartyWork
from spark_reconcile.sources.gaps import Gap
from tests.deploy import promtool
from tests.deploy.programs import PROMTOOL
from tests.deploy.promtool import evaluate, expectation, firing, growing, samples, series
from tests.service.inprocess import InProcess, ask, linked
from tests.service.monitoring.test_health import VIOLATIONS, status_with
from tests.service.monitoring.test_metrics import figures_of
from tests.spark_reconcile.report.examples import findings, source
from tests.waiting import until

DASHBOARD = promtool.RULES.parents[1] / "grafana" / "semq.json"
NODE = {"instance": "node:8080", "job": "semq"}
RULES = {rule["alert"]: rule for rule in yaml.safe_load(promtool.RULES.read_text())["groups"][0]["rules"]}
HEALTHY_MINUTES = 240
ABSENT = Gap("1.a.1.1", date(2026, 11, 20), 5)
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")


@dataclass
class Case:
    """The series of an alert: values of each minute by which it fires, and similar ones at which it must be silent."""

    fires: dict[str, str]
    minute: int  #: of the evaluation
    summary: str
    silent: dict[str, str]
    labels: dict[str, str] = field(default_factory=lambda: NODE)  #: of the alert, beside the severity


def event(name: str) -> str:
    return series("semq_events_total", event=name, **NODE)


def delivered_within(seconds: str) -> str:
    return series("semq_document_latency_seconds_bucket", stage="delivered", le=seconds, **NODE)


UP, CHECK = series("up", **NODE), series("semq_check", check="link", **NODE)
STUCK, FAILED = series("semq_stuck_rows", cause="AWAY", **NODE), series("semq_failed_rows", **NODE)
UNREAD, OFFLINE = series("semq_inbox_oldest_seconds", **NODE), series("semq_offline_oldest_seconds", **NODE)
LOAD, WRITE = series("semq_store_load_seconds_total", **NODE), series("semq_store_write_seconds_total", **NODE)
DECIDE = series("semq_store_decide_seconds_total", **NODE)
EXTRACT_STATUS = series("semq_extract_exit_status", **NODE)
EXTRACT_TIME = series("semq_extract_time_seconds", **NODE)
BREACHES = series("semq_reconcile_threshold_breaches", **NODE)
IMPLAUSIBLE = series("semq_reconcile_outcome", outcome="implausible", **NODE)
LATE = series("semq_reconcile_sources", state="LATE", **NODE)
MISSING = series("semq_reconcile_sources", state="MISSING", **NODE)
PUBLISHED = series("semq_reconcile_last_success_timestamp_seconds", **NODE)
DATE = series("semq_reconcile_business_date_timestamp_seconds", **NODE)
EXCEPTIONS = series("semq_reconcile_node_exceptions", node="1.a", **NODE)
UNJUDGED = series("semq_reconcile_node_unjudged_messages", node="1.a", **NODE)
DAY = 26 * 60 + 20  # minutes after which a daily figure of time 0 is too old
MISSED = 60 * 60 + 20  # minutes after which a business date that began at time 0 is not the last one
CASES = {
    "SemqDown": Case({UP: "1x4 0x9"}, 8, "node:8080 does not answer.", {UP: "1x4 0 1x9"}),
    "SemqCheckFails": Case(
        {CHECK: "0x4 2x9"}, 8, "node:8080: check link fails.", {CHECK: "0x4 2 0x9"}, NODE | {"check": "link"},
    ),
    "SemqCheckWarns": Case(
        {CHECK: "1x50"}, 40, "node:8080: check link needs attention.", {CHECK: "1x20 0x30"}, NODE | {"check": "link"},
    ),
    "SemqDocumentsStuck": Case(
        {STUCK: "_x5 3x40"}, 30, "node:8080: 3 documents are stuck (AWAY).", {STUCK: "_x5 3x10 _x30"},
        {"instance": NODE["instance"], "cause": "AWAY"},
    ),
    "SemqDocumentsFailed": Case(
        {FAILED: "0x5 2x20"}, 15, "node:8080: 2 documents failed and wait for an operator.", {FAILED: "0x30"},
    ),
    "SemqNothingDelivered": Case(
        {event("accepted"): "0+5x90", event("delivered"): "7x90"}, 80,
        "node:8080 accepted documents, but delivered none for 30 minutes.",
        {event("accepted"): "0+5x90", event("delivered"): "0+1x90"},
    ),
    "SemqInboxUnread": Case(
        {UNREAD: "0+60x40"}, 30, "node:8080: the oldest unread document of an inbox has waited for 30m 0s.",
        {UNREAD: "800x40"},
    ),
    "SemqPartnerOffline": Case(
        {OFFLINE: "0+60x90"}, 80, "node:8080: a document has waited for 1h 20m 0s for an institution that is offline.",
        {OFFLINE: "0+60x50 0x40"},
    ),
    "SemqDeliverySlow": Case(
        {delivered_within(bound): f"0+{count}x60" for bound, count in
         {"60.0": 95, "300.0": 100, "900.0": 100, "3600.0": 100, "21600.0": 100, "86400.0": 100, "+Inf": 100}.items()},
        50, "node:8080: delivery takes over a minute for one document in a hundred.",
        {delivered_within(bound): f"0+{count}x60" for bound, count in
         {"60.0": 100, "300.0": 100, "900.0": 100, "3600.0": 100, "21600.0": 100, "86400.0": 100, "+Inf": 100}.items()},
        {"instance": NODE["instance"]},
    ),
    "SemqStoreSaturated": Case(
        {LOAD: "0+20x40", DECIDE: "0+1x40", WRITE: "0+35x40"}, 30, "node:8080: the writer of the store is saturated.",
        {LOAD: "0+20x40", DECIDE: "0+1x40", WRITE: "0+25x40"},
    ),
    "SemqViolations": Case(
        {event("violation"): "0x20 1x20"}, 30, "node:8080: a peer violated the protocol.", {event("violation"): "3x40"},
        NODE | {"event": "violation"},
    ),
    "SemqExtractFailed": Case(
        {EXTRACT_STATUS: "1x20"}, 15, "node:8080: the nightly extract of the ledger failed.", {EXTRACT_STATUS: "0x20"},
    ),
    "SemqExtractOld": Case(
        {EXTRACT_TIME: f"0x{DAY}"}, DAY, "node:8080: the last extract of the ledger is over 26 hours old.",
        {EXTRACT_TIME: f"7200x{DAY}"},
    ),
    "SemqReconciliationBreach": Case(
        {BREACHES: "2x9"}, 5, "The exceptions of the reconciliation exceed a threshold.", {BREACHES: "0x9"},
    ),
    "SemqReconciliationImplausible": Case(
        {IMPLAUSIBLE: "1x9"}, 5,
        "The reconciliation found far fewer or far more documents than usual, or none at all.", {IMPLAUSIBLE: "0x9"},
        NODE | {"outcome": "implausible"},
    ),
    "SemqReconciliationToRepeat": Case(
        {LATE: "1x9"}, 5,
        "The reconciliation of earlier dates must be run again, or was not run: documents were not judged.",
        {LATE: "0x9", MISSING: "1x9"}, NODE | {"state": "LATE"},
    ),
    "SemqReconciliationOld": Case(
        {PUBLISHED: f"0x{DAY}"}, DAY, "No reconciliation was published for 26 hours.", {PUBLISHED: f"7200x{DAY}"},
    ),
    "SemqReconciliationNightMissed": Case(
        {DATE: f"0x{MISSED}"}, MISSED, "The last reconciled business date began 2d 12h 20m 0s ago: a night was missed.",
        {DATE: f"86400x{MISSED}"},
    ),
    "SemqReconciliationNodeExceptions": Case(
        {EXCEPTIONS: "21x9"}, 5, "21 documents of the reconciliation are the work of 1.a.", {EXCEPTIONS: "20x9"},
        NODE | {"node": "1.a"},
    ),
    "SemqReconciliationLedgerLate": Case(
        {UNJUDGED: f"0x{3 * 1440} 5x9"}, 3 * 1440 + 5, "The ledger of 1.a is late: 5 documents were not judged.",
        {UNJUDGED: f"5x{3 * 1440 + 9}"}, NODE | {"node": "1.a"},
    ),
}  # fmt: skip


def test_every_rule_has_a_case() -> None:
    assert list(CASES) == list(RULES)


@pytest.mark.parametrize("alert", CASES)
def test_a_rule_fires_with_its_texts_and_is_silent_in_a_similar_situation(alert: str) -> None:
    case, rule = CASES[alert], RULES[alert]
    labels = case.labels | rule["labels"]
    annotations = rule["annotations"] | {"summary": case.summary}
    expected = {
        "eval_time": f"{case.minute}m", "alertname": alert,
        "exp_alerts": [{"exp_labels": labels, "exp_annotations": annotations}],
    }  # fmt: skip
    fires = expectation(case.fires, alert_rule_test=[expected], promql_expr_test=[firing([alert], case.minute)])
    silent = expectation(case.silent, promql_expr_test=[firing([], case.minute)])
    assert evaluate(fires, silent) == ""


async def test_no_rule_fires_at_healthy_nodes_and_cases_have_only_series_that_nodes_export(
    inprocess: InProcess,
) -> None:
    hub = await inprocess.secure_hub()
    sender = await inprocess.secure_local("10008", hub)
    receiver = await inprocess.secure_local("56001", hub)
    nodes: dict[str, LocalNode | HubNode] = {"hub": hub, "sender": sender, "receiver": receiver}
    await linked(sender, receiver)
    clients = {name: await inprocess.client(node) for name, node in nodes.items()}
    channel = await clients["receiver"].open_channel()
    await channel.consume("semq.inbox", lambda batch: None, no_ack=True)
    assert (await ask(clients["sender"], "msg.submit", {"target": "56001", "app_key": "trade/order//S"}))["ok"]

    async def metrics_of(name: str) -> str:
        return str((await ask(clients[name], "node.metrics", {"detailed": True}))["result"]["text"])

    async def has_ended() -> bool:
        read = {sample.series: sample.value for sample in samples(await metrics_of("sender"))}
        counted = read.get(series("semq_queue_oldest_seconds"))
        return read[series("semq_events_total", event="delivered")] == 1 and counted == 0

    await until(has_ended)
    exported = [sample for name in nodes for sample in samples(await metrics_of(name), instance=name, job=NODE["job"])]
    exported += samples(reconciliation(), instance="hub", job="node")
    values = {sample.series: growing(sample, HEALTHY_MINUTES, with_traffic=True) for sample in exported}
    values |= {series("up", instance=name, job="semq"): f"1x{HEALTHY_MINUTES}" for name in nodes}
    checks = [firing([], minute) for minute in (1, 10, 35, 70, HEALTHY_MINUTES)]
    assert evaluate(expectation(values, promql_expr_test=checks)) == ""
    assert evaluate(*of_dashboard(values)) == ""
    known = {_without_instance(sample.series) for sample in [*exported, *of_all_families()]} | {_without_instance(UP)}
    used = {_without_instance(name) for case in CASES.values() for name in (*case.fires, *case.silent)}
    assert used <= known


def of_dashboard(values: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield tests: at healthy nodes each panel has values, and a single figure never has two values for one node."""
    panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if "targets" in panel]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    exist = [_one(f"count({expression}) > bool 0", [""]) for expression in expressions]
    yield expectation(values, promql_expr_test=exist)
    single = [panel["targets"][0]["expr"] for panel in panels if panel["type"] == "stat"]
    assert len(single) > 3
    sender = {"instance": "sender", "job": "semq"}
    faults = {
        series("semq_stuck_rows", cause="AWAY", **sender): "3x60",
        series("semq_check", check="link", **sender): "2x60",
        series("semq_failed_rows", **sender): "2x60",
    }
    yield expectation(
        values | faults, promql_expr_test=[_one(f"count by (instance) ({expression}) > 1", []) for expression in single]
    )


def _one(expression: str, labels: list[str]) -> dict[str, Any]:
    """Return the expectation of the value 1 for each of these labels, an hour after the begin."""
    expected = [{"labels": f"{{{names}}}", "value": 1} for names in labels]
    return {"expr": expression, "eval_time": "60m", "exp_samples": expected}


def _without_instance(name: str) -> str:
    for instance in ("hub", "sender", "receiver", NODE["instance"]):
        name = name.replace(f'instance="{instance}"', "")
    return name.replace('job="node"', 'job="semq"')


def test_promtool_accepts_the_metrics_of_a_run_with_the_labels_of_nodes() -> None:
    parties = [PartyWork("sender", ("1.a",), 3, (), "", ""), PartyWork("both ends", ("1.a", "1.b"), 1, (), "", "")]
    text = reconciliation_metrics(findings(absent=[ABSENT]), 1.9e9, 60.0, parties)
    assert 'semq_reconcile_node_exceptions{node="1.a"} 4\n' in text
    assert 'semq_reconcile_node_unjudged_messages{node="1.a"} 5\n' in text
    done = subprocess.run([str(PROMTOOL), "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def reconciliation() -> str:
    """Return metrics.prom of a run."""
    result = findings(sources=(source("1.10008"), source("1.56001", "MISSING"), source("1.88001", "LATE")))
    lines = reconciliation_metrics(result, 1.9e9, 60.0).splitlines()
    return "\n".join(line.replace('{state="LATE"} 1', '{state="LATE"} 0') for line in lines) + "\n"


def of_all_families() -> Iterator[promtool.Sample]:
    """Yield samples of families that a healthy node does not have, or has without these labels."""
    latency = Latency()
    latency.observe(Stage.DELIVERED, 0.1)
    parts: dict[str, Any] = {"extract": {"exit_status": 0, "at": "2031-01-01", "output": ""}}
    status = status_with(**parts) | {"violations": VIOLATIONS}
    text = render(figures_of(status, latency), detailed=True)
    yield from samples(text, **NODE)
    work = [PartyWork("sender", ("1.a",), 3, (), "", "")]
    yield from samples(reconciliation_metrics(findings(absent=[ABSENT]), 1.9e9, 60.0, work), **NODE)
