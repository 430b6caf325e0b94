"""Spans that real nodes export over HTTP: the spans of one document form one tree over three nodes."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from httpx import AsyncClient

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.amqp.content import ContentHeader, Properties
from semq.umx_t.pieces import PIECE_BYTES
from tests.cli.command import semq_aside
from tests.local_node.pieces.test_transfer import PIECES
from tests.local_node.pieces.test_transfer import local as local_with_pieces
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, ask, linked
from tests.test_trace_context import PARENT, SPAN, TRACE
from tests.transport.publishing import publish_and_wait
from tests.waiting import until
from tests.web.running import serving as serving_web
from tests.webhooks.hook import Hook, serving

STAGES = {"submit", "deliver", "forward", "record", "wait", "process"}


@pytest.fixture
def collector() -> Iterator[Hook]:
    with serving() as collector:
        yield collector


def telemetry(collector: Hook, more: str = "") -> str:
    return f'[telemetry]\nendpoint = "{collector.url}"\nevery_s = 0.05\n{more}\n'


def spans(collector: Hook) -> dict[str, dict[str, Any]]:
    """Return the exported spans by stage, each with its service. Fails if a stage has two spans."""
    by_stage = {}
    for request in collector.received:
        [resource] = json.loads(request.body)["resourceSpans"]
        [service] = [
            attribute["value"]["stringValue"]
            for attribute in resource["resource"]["attributes"]
            if attribute["key"] == "service.name"
        ]
        for span in resource["scopeSpans"][0]["spans"]:
            stage = span["name"].partition(" ")[0]
            assert stage not in by_stage, span
            by_stage[stage] = span | {"service": service}
    return by_stage


async def start_hub_and_pair(inprocess: InProcess, section: str) -> tuple[HubNode, LocalNode, LocalNode]:
    """Start the hub, 10008 and 56001."""
    hub = await inprocess.hub(HUB_CONFIG + section)
    a, b = [
        await inprocess.start_node(inprocess.settings(name, LOCAL_CONFIG.format(name=name, hub=hub.port) + section))
        for name in ("10008", "56001")
    ]
    await linked(a, b)
    return hub, a, b


async def submit(inprocess: InProcess, node: LocalNode, headers: dict[str, Any], body: bytes = b"body") -> None:
    """Submit a document to 56001 over AMQP."""
    channel = await (await inprocess.client(node)).open_channel()
    await channel.confirm_select()
    header = ContentHeader.build(len(body), Properties(headers=headers))
    assert await publish_and_wait(channel, "semq", "56001", header, body)


async def consume(inprocess: InProcess, node: LocalNode) -> None:
    channel = await (await inprocess.client(node)).open_channel()

    def acknowledge(batch: Sequence[Any]) -> None:
        channel.ack(batch[-1].delivery_tag, multiple=True)

    await channel.consume("semq.inbox", acknowledge)


async def test_the_spans_of_a_document_form_one_tree(inprocess: InProcess, collector: Hook) -> None:
    _, a, b = await start_hub_and_pair(inprocess, telemetry(collector))
    await consume(inprocess, b)
    await submit(inprocess, a, {"traceparent": PARENT, "tracestate": "erp=7", "private": "payload"})
    await until(lambda: spans(collector).keys() >= STAGES)
    exported = spans(collector)
    assert exported.keys() == STAGES
    assert {(span["traceId"], span["traceState"]) for span in exported.values()} == {(TRACE, "erp=7")}
    assert len({span["spanId"] for span in exported.values()}) == len(STAGES)
    parents = {stage: span["parentSpanId"] for stage, span in exported.items()}
    ids = {stage: span["spanId"] for stage, span in exported.items()}
    assert parents["submit"] == SPAN
    assert {parents[stage] for stage in ("deliver", "forward", "record")} == {ids["submit"]}
    assert {parents[stage] for stage in ("wait", "process")} == {ids["record"]}
    services = {stage: span["service"] for stage, span in exported.items()}
    assert services == {
        "submit": "semq-10008", "deliver": "semq-10008", "forward": "semq-hub",
        "record": "semq-56001", "wait": "semq-56001", "process": "semq-56001",
    }  # fmt: skip
    assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in exported.values())
    assert b"payload" not in b"".join(request.body for request in collector.received)
    answer = (await ask(await inprocess.client(a), "node.status"))["result"]["telemetry"]
    assert (answer["exported"], answer["dropped"], answer["failures"]) == (2, 0, 0)


async def test_the_hub_exports_a_span_for_a_stored_document(inprocess: InProcess, collector: Hook) -> None:
    hub = await inprocess.hub(HUB_CONFIG + telemetry(collector))
    a = await inprocess.local("10008", hub.port)
    await linked(a)
    await submit(inprocess, a, {"traceparent": PARENT})
    await until(lambda: hub.engine.custody.rows_by_target)
    b = await inprocess.local("56001", hub.port)
    await linked(b)
    await until(lambda: "store" in spans(collector))
    [stored] = spans(collector).values()
    assert [event["name"] for event in stored["events"]] == ["sent"]
    assert stored["service"] == "semq-hub"


async def test_sealed_documents_have_the_same_tree(inprocess: InProcess, collector: Hook) -> None:
    hub = await inprocess.secure_hub(telemetry(collector))
    a, b = [await inprocess.secure_local(name, hub, telemetry(collector)) for name in ("10008", "56001")]
    await linked(a, b)
    await until(lambda: a.sealing is not None and a.sealing.keys.receiver("1.56001"))
    await consume(inprocess, b)
    await submit(inprocess, a, {"traceparent": PARENT, "@Encrypt": 1})
    await until(lambda: spans(collector).keys() >= STAGES)
    assert {span["traceId"] for span in spans(collector).values()} == {TRACE}


async def test_a_document_sampled_by_ratio_gets_its_own_trace(inprocess: InProcess, collector: Hook) -> None:
    _, a, b = await start_hub_and_pair(inprocess, telemetry(collector, "sample_ratio = 1.0"))
    await consume(inprocess, b)
    await submit(inprocess, a, {})
    await until(lambda: spans(collector).keys() >= STAGES)
    exported = spans(collector)
    assert len({span["traceId"] for span in exported.values()}) == 1
    assert [stage for stage, span in exported.items() if "parentSpanId" not in span] == ["submit"]


async def test_a_document_in_pieces_has_the_spans_of_one_document(inprocess: InProcess, collector: Hook) -> None:
    section = telemetry(collector, "sample_ratio = 1.0")  # pieces get no traces of their own
    hub = await inprocess.hub(HUB_CONFIG + section)
    a, b = [await local_with_pieces(inprocess, name, hub.port, PIECES + section) for name in ("10008", "56001")]
    await linked(a, b)
    await consume(inprocess, b)
    await submit(inprocess, a, {"traceparent": PARENT}, bytes(3 * PIECE_BYTES))
    await until(lambda: spans(collector).keys() >= STAGES)
    assert spans(collector).keys() == STAGES
    assert {span["traceId"] for span in spans(collector).values()} == {TRACE}


async def test_a_restarted_receiver_exports_spans_of_earlier_documents(inprocess: InProcess, collector: Hook) -> None:
    _, a, b = await start_hub_and_pair(inprocess, telemetry(collector))
    await submit(inprocess, a, {"traceparent": PARENT})
    await until(lambda: "record" in spans(collector))
    await b.stop()
    b = await inprocess.start_node(b.settings)
    await consume(inprocess, b)
    await until(lambda: spans(collector).keys() >= STAGES)
    exported = spans(collector)
    assert {exported[stage]["parentSpanId"] for stage in ("wait", "process")} == {exported["record"]["spanId"]}


async def test_documents_travel_while_the_collector_refuses(inprocess: InProcess, collector: Hook) -> None:
    collector.answer = lambda taken: (503, {})
    _, a, b = await start_hub_and_pair(inprocess, telemetry(collector, "queue_spans = 3"))
    await consume(inprocess, b)
    for _ in range(5):
        await submit(inprocess, a, {"traceparent": PARENT})
    await until(lambda: a.engine.core.counters.counts.get("delivered") == 5)
    assert a.telemetry is not None
    await until(lambda: a.telemetry is not None and a.telemetry.failures >= 3)
    assert a.telemetry.status().waiting == 3
    assert a.telemetry.dropped == 7
    answer = (await ask(await inprocess.client(a), "node.health"))["result"]
    [check] = [check for check in answer["checks"] if check["check"] == "telemetry"]
    assert check["verdict"] == "warning"
    assert "7 spans dropped: status 503" in check["detail"]
    at = ("--node", f"amqp://guest:guest@127.0.0.1:{a.port}")
    for form in ("text", "nagios", "json", "prometheus"):
        result = await semq_aside("check", "node", *at, "--format", form)
        assert result.status == 1
        assert "failures in a row" in result.out or form == "prometheus", result.out
    result = await semq_aside("node", "status", *at)
    assert "3 waiting, 7 dropped" in result.out
    async with serving_web(a) as site, AsyncClient(base_url=site.url) as client:
        token = {"authorization": f"Bearer {await site.token('viewer')}"}
        answer = (await client.get("/healthz?verbose", headers=token)).json()
        assert "telemetry" in {check["check"] for check in answer["checks"] if check["verdict"] == "warning"}
        assert 'semq_telemetry_spans_total{result="dropped"} 7.0' in (await client.get("/metrics", headers=token)).text


async def test_without_the_section_telemetry_no_spans_are_made(inprocess: InProcess) -> None:
    hub, a = await inprocess.linked_pair()
    assert (a.telemetry, a.spans, a.engine.core.spans, hub.engine.core.spans) == (None, None, None, None)
    await submit(inprocess, a, {"traceparent": PARENT})
    answer = (await ask(await inprocess.client(a), "node.health"))["result"]
    assert "telemetry" not in {check["check"] for check in answer["checks"]}
