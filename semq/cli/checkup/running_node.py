"""Checks of the running node: port, health, stuck documents; at a hub also the health of its other instances."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from semq.answers.status import Check, NodeHealth, NodeStatus
from semq.app import Client, IncompleteAnswer
from semq.app.answers import read_answer
from semq.app.errors import BadUrl, LoginRefused, NodeUnreachable
from semq.cli.checkup.finding import FAILING, OK, WARNING, Finding, failing
from semq.config import reach
from semq.config.settings import Settings
from semq.errors import SemqError

STUCK_MAX = 1000  # largest number of stuck documents in the answer
MISSING_STORE = "`semq hub instances` shows which instance serves it; start that instance, or its standby."
# Check of node.health | advice
ADVICE = {
    "store": "See the findings about the database; the node tries again by itself.",
    "direct": (
        "Check the network, and that the nodes of these partners run; a node whose certificate was revoked has to enrol"
        " again. Documents wait, or go through the hub."
    ),
    "datagrams": "Let UDP pass to and from datagrams.port; after loss see the operator's guide, *Datagrams*.",
    "certificate": "`semq cert show` shows it; see the operator's guide, *Certificates and keys*.",
    "files": "Replace the files named; a node uses them at once, without a restart.",
    "certificates": "Running nodes renew them. A node whose certificate has ended must enrol: `semq hub nodes token`.",
    "resources": "Free disk space, or let applications receive waiting documents; no accepted document is lost.",
    "quotas": "`semq stuck list` shows the causes; protocol.quota_rows_per_partner is the limit.",
    "submissions": "`semq stuck list` shows the causes; `semq failed requeue` submits refused ones again.",
    "folders": "Free disk space, mount the folder named, or correct path or rights; its documents wait.",
    "webhooks": "Check the application behind the address, and its credentials there; its documents wait.",
    "telemetry": "Check telemetry.endpoint, its headers and the collector; documents are not affected.",
    "extract": "`semq reconcile extract` repeats the extract in the foreground and shows the fault.",
}


async def check(settings: Settings, patience_s: float) -> AsyncIterator[Finding]:
    """Check the running node; ``patience_s``: longest wait for each answer of the node."""
    if not settings.amqp.port:
        yield Finding("node", WARNING, "amqp.port = 0: the node uses any free port, so doctor cannot find it")
        return
    try:
        client = Client(reach.url_of(settings), patience_s=patience_s)
    except BadUrl:  # a TLS port without trusted authorities, which enrolment or the first start of a hub creates
        yield Finding("node", FAILING, "does not serve: it has no certificate yet", start_command(settings))
        return
    try:
        await client.connect(once=True)
        status = read_answer(NodeStatus, await client.request("node.status", {}, timeout_s=patience_s))
        health = read_answer(NodeHealth, await client.request("node.health", {}, timeout_s=patience_s))
        page, missing_stores = await _ask_all_stores(client, "stuck.list", {"limit": STUCK_MAX}, patience_s)
        stuck = page["rows"] if page else []
        instances: list[dict[str, object]] = []
        if settings.cluster is not None:
            answered, missing_of_health = await _ask_all_stores(client, "hub.health", {}, patience_s)
            instances = answered or []
            missing_stores |= missing_of_health
    except SemqError as error:
        yield _finding_without_answer(error, settings)
        return
    finally:
        await client.close()
    expected = str(settings.address)
    if status.node != expected:
        detail = f"{status.node} answers at this port, not {expected}"
        yield Finding("node", FAILING, detail, "Configure another port for one of the two nodes.")
        return
    yield Finding("node", OK, f"{expected} since {status.started_at}")
    for check_ in health.checks:
        yield finding_of_check(check_, settings)
    own_store = f"{settings.node.semq_id}.{settings.node.semq_db_id}"
    for instance in instances:
        if instance["store"] != own_store:
            yield _finding_of_instance(instance)
    for store, reason in missing_stores.items():
        yield Finding(store, FAILING, reason, MISSING_STORE)
    causes = Counter(row["stuck"]["cause"] for row in stuck)
    if causes:
        counted = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
        at_least = "at least " if len(stuck) == STUCK_MAX else ""
        yield Finding("stuck", WARNING, at_least + counted, "`semq stuck list` shows the next step for each cause.")
    else:
        yield Finding("stuck", OK)


def finding_of_check(check_: Check, settings: Settings) -> Finding:
    """Return the finding about one check of the node's health."""
    name, verdict, detail = check_.name, check_.verdict, check_.detail
    if verdict == OK:
        return Finding(name, verdict, detail)
    if name == "link" and settings.hub is not None:
        # The node's last attempt may be older than what `way to the hub` has found, for instance after an enrolment.
        advice = (
            "The finding `way to the hub` is the present state; the node dials again by itself, at the latest "
            f"{settings.hub.reconnect_s_max:g} s after its last attempt."
        )
        return Finding(name, verdict, f"at the node's last attempt: {detail}", advice)
    return Finding(name, verdict, detail, ADVICE.get(name, ""))


def _finding_without_answer(error: SemqError, settings: Settings) -> Finding:
    if isinstance(error, NodeUnreachable):
        has_fault_of_tls = error.remedy != NodeUnreachable.remedy  # then the node may run
        advice = error.remedy if has_fault_of_tls else start_command(settings)
        return Finding("node", FAILING, f"does not serve: {error.facts.get('cause', error)}", advice)
    if isinstance(error, LoginRefused):
        advice = (
            "If the users in the file were changed, the node has the former ones until a restart or a reload (`kill "
            "-HUP PID`). Else another node, or a node with another configuration, uses this port."
        )
        return Finding("node", FAILING, str(error), advice)
    return failing("node", error)


async def _ask_all_stores(
    client: Client, operation: str, arguments: dict[str, object], patience_s: float
) -> tuple[Any, dict[str, str]]:
    """Run an operation; return its answer, or None, and for each missing store of a hub the reason."""
    try:
        return await client.request(operation, arguments, timeout_s=patience_s), {}
    except IncompleteAnswer as error:
        return error.result, {store: str(reason) for store, reason in error.facts.items()}


def _finding_of_instance(instance: dict[str, Any]) -> Finding:
    faults = [f"{check['check']}: {check['detail']}" for check in instance["checks"] if check["verdict"] != OK]
    advice = f"Run `semq doctor` at the instance on {instance['host']}." if faults else ""
    return Finding(f"store {instance['store']}", instance["verdict"], "; ".join(faults), advice)


def start_command(settings: Settings) -> str:
    """Return the command that starts a node, which is the advice for a node that does not run."""
    return f"semq node run --config {settings.file or 'FILE'}"
