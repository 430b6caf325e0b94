"""Checks of the running node: port, health, stuck messages."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from semq.app import Client, IncompleteAnswer
from semq.app.errors import LoginRefused, NodeUnreachable
from semq.cli.checkup.finding import FAILING, OK, WARNING, Finding, failing
from semq.config import reach
from semq.config.settings import Settings
from semq.errors import SemqError

STUCK_MAX = 1000  # messages read
UNREACHED = "`semq hub instances` shows who serves it; start that instance, or its standby."
# check of node.health | advice
ADVICE = {
    "store": "See the findings on the database; the node tries again by itself.",
    "link": "Check the network path to the hub; the node dials again by itself.",
    "direct": "Check that these partners' nodes run, and the network; documents wait, or go by the hub.",
    "datagrams": "Let UDP pass to and from datagrams.port; after loss see OPERATIONS.md, Datagrams.",
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
        stuck, missing = await _ask_all(client, "stuck.list", {"limit": STUCK_MAX}, patience_s)
        others: list[dict[str, Any]] = []
        if settings.cluster is not None:
            others, more_missing = await _ask_all(client, "hub.health", {}, patience_s)
            missing |= more_missing
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
    own = f"{settings.node.semq_id}.{settings.node.semq_db_id}"
    for instance in others:
        if instance["store"] != own:
            yield _instance(instance)
    for store, why in missing.items():
        yield Finding(store, FAILING, why, UNREACHED)
    causes = Counter(row["stuck"]["cause"] for row in stuck)
    if causes:
        counted = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
        more = "at least " if len(stuck) == STUCK_MAX else ""
        yield Finding("stuck", WARNING, more + counted, "`semq stuck list` shows the next step for each cause.")
    else:
        yield Finding("stuck", OK)


async def _ask_all(
    client: Client, operation: str, arguments: dict[str, Any], patience_s: float
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Ask an operation that answers for all stores of a hub; return its rows, and the stores that are missing."""
    try:
        return await client.request(operation, arguments, timeout_s=patience_s), {}
    except IncompleteAnswer as error:
        return error.result or [], {name: str(why) for name, why in error.facts.items()}


def _instance(instance: dict[str, Any]) -> Finding:
    """Return the finding about another instance of a hub."""
    bad = [f"{check['check']}: {check['detail']}" for check in instance["checks"] if check["verdict"] != OK]
    advice = f"Run `semq doctor` at the instance on {instance['host']}." if bad else ""
    return Finding(f"store {instance['store']}", instance["verdict"], "; ".join(bad), advice)


def _start(settings: Settings) -> str:
    return f"./run node {settings.node.kind} --config {settings.file or 'FILE'}"
