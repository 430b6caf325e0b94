"""The next step for every exception: the node at which an operator acts, and the command.

Steps of the repair list follow from its own table (``repair.acts.ACTS``); the others are listed below. Commands that
only show something come first. ``FILE`` is the configuration of the named node. Of a message's own texts, commands
contain only its locator, because the others are foreign text.
"""

import shlex
from typing import Any, NamedTuple

from spark_reconcile.judgement.verdicts import FINDINGS, VERDICT
from spark_reconcile.repair.acts import ACTS
from spark_reconcile.repair.repair_list import HUB


class NextStep(NamedTuple):
    """A row of the table: for a verdict, the side whose operator acts, and the command."""

    verdict: str
    at: str  #: sender, hub, receiver, or writer (the node that wrote an unusable line)
    command: str


# fmt: off
STEPS = (
    NextStep("PARKED",              "receiver", "semq failed show {lk0}"),
    NextStep("PARKED",              "receiver", "semq failed requeue {lk0} --why {why}"),
    NextStep("DUPLICATE_DELIVERED", "receiver", "semq msg trace {lk0}"),
    NextStep("DIGEST_MISMATCH",     "sender",   "semq msg trace {lk0}"),
    NextStep("DIGEST_MISMATCH",     "receiver", "semq msg trace {lk0}"),
    NextStep("UNKNOWN_ORIGIN",      "sender",   "semq msg trace {lk0}"),
    NextStep("UNKNOWN_ORIGIN",      "sender",   "semq node incarnation"),
    NextStep("STATE_CONTRADICTION", "sender",   "semq msg trace {lk0}"),
    NextStep("STATE_CONTRADICTION", "hub",      "semq ledger verify"),
    NextStep("STATE_CONTRADICTION", "receiver", "semq ledger verify"),
    NextStep("QUARANTINED",         "writer",   "semq reconcile extract --business-date {day}"),
)
# The command for each operation of a node.
COMMANDS = {
    "msg.inquire":   "semq msg inquire {lk0}",
    "msg.resend":    "semq msg resend {lk0} --why {why}",
    "failed.remove": "semq failed remove {lk0} --why {why}",
}
# fmt: on
_DEEDS = {(act.deed, act.side): COMMANDS[act.operation] for act in ACTS}


class Next(NamedTuple):
    """A node and the command to enter there."""

    side: str  #: its role: sender, hub, receiver, writer
    node: str
    command: str


def next_steps(row: dict[str, Any], day: str, hub: str, writer: str = "") -> list[Next]:
    """Return the steps for an exception, in order. ``hub``, ``writer``: addresses of these nodes, if they are known."""
    nodes = {"sender": row["sender"], "receiver": row["receiver"], HUB: hub, "writer": writer}
    _, side, deed = FINDINGS.get(row["finding"], ("", "", ""))
    rows = [(side, _DEEDS[deed, side])] if deed else [(s.at, s.command) for s in STEPS if s.verdict == row["verdict"]]
    why = shlex.quote(f"reconciliation {day}: {row['finding']}")
    words = {"lk0": shlex.quote(row["lk0"]), "day": day, "why": why}
    return [Next(at, nodes[at], f"{command.format(**words)} --config FILE") for at, command in rows]


def owner_of(row: dict[str, Any], hub: str) -> list[tuple[str, str]]:
    """Return the nodes that have to act on an exception: roles and addresses."""
    owner = VERDICT[row["verdict"]].owner
    nodes = {"sender": row["sender"], "receiver": row["receiver"], HUB: hub}
    return [(role, nodes.get(role, "")) for role in (("sender", "receiver") if owner == "both ends" else (owner,))]
