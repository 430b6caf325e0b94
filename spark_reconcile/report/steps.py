"""The next steps for every exception: the nodes at which operators act, and the commands.

Steps of the repair list follow from its own table (``repair.acts.ACTS``); the others are listed below. ``FILE`` is the
configuration of the named node. The only text of a message in a command is its locator, because all other texts of the
message are foreign.
"""

import shlex
from typing import NamedTuple

from spark_reconcile.judgement.verdicts import VERDICT, finding_of
from spark_reconcile.repair.acts import ACTS
from spark_reconcile.repair.repair_list import HUB
from spark_reconcile.tables import Row


class StepRule(NamedTuple):
    """A row of the table: for a verdict, the side whose operator acts, and the command."""

    verdict: str
    at: str  #: sender, hub, receiver, or writer (the node that wrote an unusable line)
    command: str


# fmt: off
STEPS = (
    StepRule("PARKED",              "receiver", "semq failed show {lk0}"),
    StepRule("PARKED",              "receiver", "semq failed requeue {lk0} --why {why}"),
    StepRule("DUPLICATE_DELIVERED", "receiver", "semq msg trace {lk0}"),
    StepRule("DIGEST_MISMATCH",     "sender",   "semq msg trace {lk0} --full"),
    StepRule("DIGEST_MISMATCH",     "receiver", "semq msg trace {lk0} --full"),
    StepRule("UNKNOWN_ORIGIN",      "sender",   "semq msg trace {lk0}"),
    StepRule("UNKNOWN_ORIGIN",      "sender",   "semq node incarnation"),
    StepRule("STATE_CONTRADICTION", "sender",   "semq msg trace {lk0}"),
    StepRule("STATE_CONTRADICTION", "hub",      "semq ledger verify"),
    StepRule("STATE_CONTRADICTION", "receiver", "semq ledger verify"),
    StepRule("QUARANTINED",         "writer",   "semq reconcile extract --business-date {day}"),
)
# The command for each operation of a node.
COMMANDS = {
    "msg.inquire":   "semq msg inquire {lk0}",
    "msg.resend":    "semq msg resend {lk0} --why {why}",
    "failed.remove": "semq failed remove {lk0} --why {why}",
    "": "semq msg trace {lk0}",  # its business key, for the application that submits it again
}
# fmt: on
_DEEDS = {(act.deed, act.side): COMMANDS[act.operation] for act in ACTS}


class NextStep(NamedTuple):
    """A node and the command to enter there."""

    side: str  #: the role of the node: sender, hub, receiver, writer
    node: str
    command: str


def next_steps(row: Row, day: str, hub: str, writer: str = "") -> list[NextStep]:
    """Return the steps for an exception, in order. ``hub``, ``writer``: addresses of these nodes; empty if unknown."""
    nodes = {"sender": row["sender"], "receiver": row["receiver"], HUB: hub, "writer": writer}
    _, side, deed = finding_of(row["finding"])
    rows = [(side, _DEEDS[deed, side])] if deed else [(s.at, s.command) for s in STEPS if s.verdict == row["verdict"]]
    why = shlex.quote(f"reconciliation {day}: {row['finding']}")
    values = {"lk0": shlex.quote(row["lk0"]), "day": day, "why": why}
    return [NextStep(at, nodes[at], f"{command.format(**values)} --config FILE") for at, command in rows]


def owners(row: Row, hub: str) -> list[tuple[str, str]]:
    """Return the parties that have to act: role, and address (empty if it is unknown, or the role is no node)."""
    owner = VERDICT[row["verdict"]].owner
    nodes = {"sender": row["sender"], "receiver": row["receiver"], HUB: hub}
    roles = ("sender", "receiver") if owner == "both ends" else (owner,)
    return [(role, nodes.get(role, "")) for role in roles]
