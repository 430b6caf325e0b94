"""Health and figures for orchestrators and Prometheus.

| path                | for      | answer                                                                             |
|---------------------|----------|------------------------------------------------------------------------------------|
| /livez              | everyone | 200 while this process serves, whatever the state of the node                      |
| /readyz             | everyone | 200 if the node answers, its store is open and it is not drained, else 503         |
| /healthz            | everyone | 200 unless a health check fails, else 503; ``?verbose``: all checks, for viewers   |
| /metrics            | viewers  | the figures of ``node.metrics``, as OpenMetrics if the request accepts that format |
| /metrics/detailed   | viewers  | the same, with the figures of each partner                                         |

Requests within a second share an answer of the node.
"""

from collections.abc import Mapping
from typing import Any

from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute

from semq.access_rights import AccessRole
from semq.errors import Unavailable
from semq.web.access.visitor import Visitor
from semq.web.api.authentication import authenticate
from semq.web.api.endpoint import Call, Endpoint, json_response, route_of
from semq.web.services import Web

SHARED_S = 1.0  # time for which requests share an answer
ASK_S = 5.0  # longest wait for the node; orchestrators and scrapes usually wait longer
OPENMETRICS = "application/openmetrics-text"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
# Check | its verdicts with which the node accepts documents. The store warns if it lacks commits after a failover.
READY = {"node": ("ok",), "store": ("ok", "warning"), "intake": ("ok",)}
# The health of a node that does not answer
NO_ANSWER = {"verdict": "failing", "checks": [{"check": "node", "verdict": "failing", "detail": "it does not answer"}]}


async def live(call: Call) -> Response:
    """Show that this process serves."""
    return PlainTextResponse("ok\n")


async def ready(call: Call) -> Response:
    """Show whether the node accepts documents."""
    checks = (await _health(call.web))["checks"]
    is_ready = all(check["verdict"] in READY[check["check"]] for check in checks if check["check"] in READY)
    return PlainTextResponse("ok\n" if is_ready else "not ready\n", 200 if is_ready else 503)


async def health(call: Call) -> Response:
    """Show the verdict over all health checks; with ``?verbose`` also the checks, for viewers."""
    report = await _health(call.web)
    status = 503 if report["verdict"] == "failing" else 200
    if "verbose" not in call.request.query_params:
        return PlainTextResponse(f"{report['verdict']}\n", status)
    _check_viewer(await authenticate(call.request, call.web))
    return json_response(report, status)


async def metrics(call: Call) -> Response:
    """Return the figures of the node, without those of each partner."""
    return await _metrics(call, detailed=False)


async def detailed_metrics(call: Call) -> Response:
    """Return the figures of the node, with those of each partner."""
    return await _metrics(call, detailed=True)


async def _metrics(call: Call, *, detailed: bool) -> Response:
    is_openmetrics = OPENMETRICS in call.request.headers.get("accept", "")
    arguments = {"detailed": detailed, "format": "openmetrics" if is_openmetrics else "text"}

    async def make() -> str:
        return str((await call.web.client.request("node.metrics", arguments, timeout_s=ASK_S))["text"])

    text = await call.web.snapshot(f"metrics {arguments}", SHARED_S, make)
    return Response(text, media_type=f"{OPENMETRICS}; version=1.0.0; charset=utf-8" if is_openmetrics else TEXT)


async def _health(web: Web) -> Mapping[str, Any]:
    async def make() -> Mapping[str, Any]:
        try:
            answer: Mapping[str, object] = await web.client.request("node.health", {}, timeout_s=ASK_S)
        except Unavailable:
            return NO_ANSWER
        return answer

    report: Mapping[str, object] = await web.snapshot("health", SHARED_S, make)
    return report


def _check_viewer(visitor: Visitor) -> None:
    if not visitor.may(AccessRole.VIEWER):
        raise visitor.lacks(AccessRole.VIEWER)


VIEWING = (AccessRole.VIEWER,)
ENDPOINTS = (
    Endpoint("GET", "/livez", "live", "Show that this process serves.", live, ()),
    Endpoint("GET", "/readyz", "ready", "Show whether the node accepts documents.", ready, ()),
    Endpoint("GET", "/healthz", "health", "Show the verdict over all health checks.", health, ()),
    Endpoint("GET", "/metrics", "metrics", "Return the figures of the node.", metrics, VIEWING),
    Endpoint(
        "GET",
        "/metrics/detailed",
        "metrics.detailed",
        "Return the figures of the node and of each partner.",
        detailed_metrics,
        VIEWING,
    ),
)
ROUTES: list[BaseRoute] = [route_of(row.path, {row.method: row}) for row in ENDPOINTS]
