"""Checks of the running node: port, health, stuck messages."""

from collections import Counter
from collections.abc import AsyncIterator

from semq.app import Client
from semq.app.errors import LoginRefused, NodeUnreachable
from semq.cli.checkup.finding import FAILING, OK, WARNING, Finding, failing
from semq.config import reach
from semq.config.settings import Settings
from semq.errors import SemqError

STUCK_MAX = 1000  # messages read
# check of node.health | advice
ADVICE = {
    "store": "See the findings on the database; the node tries again by itself.",
    "link": "Check the network path to the hub; the node dials again by itself.",
    "certificate": "`semq cert show`; OPERATIONS.md, certificates.",
    "certificates": "Their nodes renew them while they run. One that has ended needs a token: `semq hub nodes token`.",
    "resources": "Make room, or let applications take what waits; nothing that was accepted is lost.",
    "quotas": "`semq stuck list` shows the causes; protocol.quota_rows_per_partner is the limit.",
    "submissions": "`semq stuck list` shows the causes; `semq failed requeue` submits refused ones again (SQL.md).",
    "telemetry": "Check telemetry.endpoint, its headers and the collector; documents are not affected.",
    "extract": "`semq reconcile extract` does the same in the foreground.",
}


async def check(settings: Settings, patience_s: float) -> AsyncIterator[Finding]:
    """Check the running node."""
    if not settings.amqp.port:
        yield Finding("node", WARNING, "amqp.port = 0: the node uses any free port, which is not known here")
        return
    client = Client(reach.url_of(settings), patience_s=patience_s)
    try:
        await client.connect()
        status = await client.request("node.status", {}, timeout_s=patience_s)
        health = await client.request("node.health", {}, timeout_s=patience_s)
        stuck = await client.request("stuck.list", {"limit": STUCK_MAX}, timeout_s=patience_s)
    except NodeUnreachable as error:
        yield Finding("node", FAILING, f"does not serve: {error.facts.get('cause', error)}", _start(settings))
        return
    except LoginRefused as error:
        yield Finding("node", FAILING, str(error), "Another node, or one of another configuration, has this port.")
        return
    except SemqError as error:
        yield failing("node", error)
        return
    finally:
        await client.close()
    expected = str(settings.address)
    if status["node"] != expected:
        yield Finding(
            "node", FAILING, f"{status['node']} answers here, not {expected}", "Configure another port for one of them."
        )
        return
    yield Finding("node", OK, f"{expected} since {status['started_at']}")
    for one in health["checks"]:
        advice = "" if one["verdict"] == OK else ADVICE.get(one["check"], "")
        yield Finding(one["check"], one["verdict"], one["detail"], advice)
    causes = Counter(row["stuck"]["cause"] for row in stuck)
    if causes:
        said = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
        more = "at least " if len(stuck) == STUCK_MAX else ""
        yield Finding("stuck", WARNING, more + said, "`semq stuck list` shows the next step for each cause.")
    else:
        yield Finding("stuck", OK)


def _start(settings: Settings) -> str:
    return f"./run node {settings.node.kind} --config {settings.file or 'FILE'}"
