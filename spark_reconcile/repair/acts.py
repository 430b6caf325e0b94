"""``semq reconcile apply``: carry out the repair list of a node, by operations of the node.

Without ``--yes`` it only prints what it would do. It reads the state of every message again and skips those that have
been resolved since the report. The node writes all acts to its ledger, so the next reconciliation sees them.
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date
from typing import NamedTuple

from semq.app import Client, NoAnswer, NodeBusy, NodeUnreachable, RefusedByNode
from semq.clock import Clock
from spark_reconcile.errors import NoSuchRun
from spark_reconcile.extracts.manifest import Verify
from spark_reconcile.extracts.signatures import authorities_file, verifier
from spark_reconcile.node import AskedNode, asked_node
from spark_reconcile.repair.repair_list import HUB, INDEX, RepairLine, read_repair
from spark_reconcile.run import runs
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place

PrintMessage = Callable[[str], None]
UNKNOWN_OR_ENDED = ("SEMQ-1207", "SEMQ-1208")  # the node does not know the message, or the message has ended
CLASS_3 = 3
PATIENCE_S = 15.0  # longest wait for an unavailable node; short, because a person waits
UNKNOWN_MESSAGE: Mapping[str, object] = {}  # the row of a message that the node does not know


class RepairAct(NamedTuple):
    """A row of the table of acts: the operation of the node for a deed and a side, and its description.

    Without an operation, only people can do it.
    """

    deed: str
    side: str
    operation: str
    description: str


# fmt: off
ACTS = (
    RepairAct("inquire", "sender", "msg.inquire",
              "ask the hub and the receiver for its state"),
    RepairAct("inquire", "receiver", "msg.inquire",
              "ask whether the acknowledgements were noted"),
    RepairAct("inquire", "hub", "msg.inquire",
              "ask the receiver about the stored copy"),
    RepairAct("resend", "sender", "msg.resend",
              "send another copy of the same bytes; the receiver drops duplicates"),
    RepairAct("reack", "receiver", "msg.inquire",
              "acknowledge it again to sender and hub"),
    RepairAct("close", "sender", "failed.remove",
              "delete the row of the ended document; its history stays in the ledger"),
    RepairAct("submit", "sender", "",
              "its receiver has lost it: have your application submit it again"),
)
# fmt: on
_ACT = {(act.deed, act.side): act for act in ACTS}  # by deed and side


class DeedResult(NamedTuple):
    """The result of one deed of the list."""

    lk0: str
    deed: str
    result: str  #: planned, done, resolved (nothing left to do), left (not possible at this node now) or failed
    note: str


def apply(
    arguments: argparse.Namespace,
    settings: ReconcileSettings,
    day: date | None,
    clock: Clock,
    print_message: PrintMessage,
) -> tuple[int, runs.Facts]:
    """Read this node's repair list and apply it; without ``--yes`` print what would be done.

    The exit code is 1 if a deed failed. ``day``: None if ``--list`` names the folder. Raises NoSuchRun, BadRepairList,
    BadRunRequest.
    """
    node = asked_node(arguments.node, arguments.config, arguments.institution)
    place = Place.at(arguments.list) if day is None else _repair_of(settings, day, arguments.run)
    if not (place / INDEX).exists():
        raise NoSuchRun("There is no repair list here.", place=str(place))
    trust = authorities_file(settings.trust, arguments.config, arguments.institution)
    verify = verifier(trust, clock) if trust is not None else None
    results = asyncio.run(_apply(node, place, verify, print_message, is_real=arguments.yes))
    counts = dict(Counter(result.result for result in results))
    if results:
        print_message(", ".join(f"{count} {result}" for result, count in counts.items()))
    if not arguments.yes and counts.get("planned"):
        print_message("Nothing was done. Give --yes to do it.")
    code = 1 if counts.get("failed") else 0
    return code, {
        "outcome": "failed" if code else "applied" if arguments.yes else "planned",
        "exit_code": code,
        "counts": counts,
        "deeds": [result._asdict() for result in results],
    }


def _repair_of(settings: ReconcileSettings, day: date, run: str) -> Place:
    return runs.find(Place.at(settings.reports), day, run).place / "repair"


async def _apply(
    node: AskedNode, place: Place, verify: Verify | None, print_message: PrintMessage, *, is_real: bool
) -> list[DeedResult]:
    async with node.client(PATIENCE_S) as client:
        status = await client.request("node.status")
        name = HUB if status["kind"] == "platform" else str(status["node"])
        repair_lines = read_repair(place, name, verify)
        if not repair_lines:
            print_message(f"The repair list has nothing for {name}.")
        results: list[DeedResult] = []
        for line in repair_lines:
            try:
                result = await apply_deed(client, line, is_real=is_real)
            except NodeUnreachable as error:
                remaining = repair_lines[len(results) :]
                print_message(f"{error.advice()} {len(remaining)} of {len(repair_lines)} deeds were not done.")
                note = "the connection to the node was lost"
                return [*results, *(DeedResult(failed.lk0, failed.deed, "failed", note) for failed in remaining)]
            print_message(f"{result.result:<9}{result.deed:<8}{result.lk0}  {result.note}")
            results.append(result)
        return results


async def apply_deed(client: Client, line: RepairLine, *, is_real: bool) -> DeedResult:
    """Do the deed of a line, if the present state of the message still needs it; without ``is_real``, only plan it.

    Raises NodeUnreachable.
    """
    act = _ACT.get((line.deed, line.side))
    if act is None:
        return DeedResult(line.lk0, line.deed, "left", f"this version of SEMQ knows no such deed of a {line.side}")
    if not act.operation:
        return DeedResult(line.lk0, line.deed, "left", act.description)
    try:
        row = await _row(client, line.lk0, line.side)
        if row == UNKNOWN_MESSAGE:
            note = "this node has no record of it: check whether its store was restored"
            return DeedResult(line.lk0, line.deed, "left", note)
        if row is None or (act.deed != "close" and _is_resolved(act, row)):
            return DeedResult(line.lk0, line.deed, "resolved", "nothing left to do")
        if act.deed == "close" and row.get("outcome") is None:
            return DeedResult(line.lk0, line.deed, "left", "it has not ended at its sender")
        if not is_real:
            return DeedResult(line.lk0, line.deed, "planned", act.description)
        arguments: dict[str, object] = {"why": f"reconciliation: {line.finding}"}
        arguments |= {"ids": [line.lk0]} if act.operation == "failed.remove" else {"id": line.lk0}
        await client.request(act.operation, arguments, repeat=False)
    except RefusedByNode as error:
        result = "resolved" if error.code in UNKNOWN_OR_ENDED else "failed"
        return DeedResult(line.lk0, line.deed, result, error.advice())
    except (NodeBusy, NoAnswer) as error:
        return DeedResult(line.lk0, line.deed, "failed", error.advice())
    return DeedResult(line.lk0, line.deed, "done", act.description)


async def _row(client: Client, lk0: str, side: str) -> Mapping[str, object] | None:
    """Return the row of a message in the queue of a side: None if it has left the queue, or UNKNOWN_MESSAGE."""
    queue = "inbound" if side == "receiver" else "outbound"
    try:
        row = await client.look(lk0)
    except RefusedByNode as error:
        if error.code not in UNKNOWN_OR_ENDED:
            raise
        return UNKNOWN_MESSAGE
    return row if row.get("side") == queue and not row.get("cleaned") else None


def _is_resolved(act: RepairAct, row: Mapping[str, object]) -> bool:
    """Whether the message has an outcome (sender, hub), or no acknowledgement of it is owed (receiver)."""
    if act.side != "receiver":
        return row.get("outcome") is not None
    # An acknowledgement with the status AS_INIT is still owed (PROTOCOL.md, R9).
    owes_hub = row.get("lk1") is not None and row.get("p_ack_status") == "AS_INIT"
    return not owes_hub and not (row.get("save_fwd") == CLASS_3 and row.get("s_ack_status") == "AS_INIT")
