"""``semq reconcile apply``: a node repairs exceptions of a reconciliation, through the protocol, never by editing rows.

Without ``--yes`` it only prints what it would do. The state of every message is read again first, and messages that
have been resolved since the report are skipped. All acts go through the node's administration (``semq.admin``) and
engine, which writes them to the ledger, so that the next reconciliation sees them.
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, NamedTuple

from semq.app import Client, NoAnswer, NodeBusy, NodeUnreachable, RefusedByNode
from semq.clock import Clock
from spark_reconcile.errors import NoSuchRun
from spark_reconcile.extracts.manifest import Verify
from spark_reconcile.extracts.signatures import authorities, verifier
from spark_reconcile.node import node_url
from spark_reconcile.repair.repair_list import HUB, INDEX, Deed, read_repair
from spark_reconcile.run import runs
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place

Say = Callable[[str], None]
TOO_LATE = ("SEMQ-1207", "SEMQ-1208")  # unknown, or ended: resolved since the report
CLASS_3 = 3
PATIENCE_S = 15.0  # for an unavailable node; short, because a person waits
UNHEARD_OF: Mapping[str, Any] = {}


class RepairAct(NamedTuple):
    """A row of the table of acts: the operation of the node for a deed and a side, and its description."""

    deed: str
    side: str
    operation: str
    words: str


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
              "delete the row of the ended message; its history stays in the ledger"),
)
# fmt: on
_ACT = {(act.deed, act.side): act for act in ACTS}


class Applied(NamedTuple):
    """The result of one deed: planned, done, resolved (nothing left to do), left (the node cannot do it), or failed."""

    lk0: str
    deed: str
    result: str
    note: str


def apply(
    arguments: argparse.Namespace, settings: ReconcileSettings, day: date | None, clock: Clock, say: Say
) -> tuple[int, Any]:
    """Read this node's repair list and apply it, or print what would be done."""
    url = node_url(arguments.node, arguments.config)
    place = Place.at(arguments.list) if day is None else _repair_of(settings, day, arguments.run)
    if not (place / INDEX).exists():
        raise NoSuchRun("There is no repair list here.", place=str(place))
    trust = authorities(settings.trust, arguments.config)
    verify = verifier(trust, clock) if trust is not None else None
    done = asyncio.run(_apply(url, place, verify, say, is_real=arguments.yes))
    counts = dict(Counter(one.result for one in done))
    if done:
        say(", ".join(f"{count} {result}" for result, count in counts.items()))
    if not arguments.yes and counts.get("planned"):
        say("Nothing was done. Give --yes to do it.")
    code = 1 if counts.get("failed") else 0
    return code, {
        "outcome": "failed" if code else "applied" if arguments.yes else "planned",
        "exit_code": code,
        "counts": counts,
        "deeds": [one._asdict() for one in done],
    }


def _repair_of(settings: ReconcileSettings, day: date, run: str) -> Place:
    return runs.find(Place.at(settings.reports), day, run).place / "repair"


async def _apply(url: str, place: Place, verify: Verify | None, say: Say, *, is_real: bool) -> list[Applied]:
    async with Client(url, patience_s=PATIENCE_S) as client:
        status = await client.request("node.status")
        name = HUB if status["kind"] == "platform" else str(status["node"])
        deeds = read_repair(place, name, verify)
        if not deeds:
            say(f"The repair list has nothing for {name}.")
        done: list[Applied] = []
        for deed in deeds:
            try:
                one = await apply_one(client, deed, is_real=is_real)
            except NodeUnreachable as error:
                rest = deeds[len(done) :]
                say(f"{error.advice()} {len(rest)} of {len(deeds)} were not done.")
                return [*done, *(Applied(left.lk0, left.deed, "failed", "the node went away") for left in rest)]
            say(f"{one.result:<9}{one.deed:<8}{one.lk0}  {one.note}")
            done.append(one)
        return done


async def apply_one(client: Client, deed: Deed, *, is_real: bool) -> Applied:
    """Read the present state of a message, and do the deed if it is still needed."""
    act = _ACT.get((deed.deed, deed.side))
    if act is None:
        return Applied(deed.lk0, deed.deed, "left", f"a {deed.side} cannot do this")
    try:
        row = await _row(client, deed.lk0, deed.side)
        if row == UNHEARD_OF:
            return Applied(
                deed.lk0, deed.deed, "left", ("this node has no record of it: check whether its store was restored")
            )
        if row is None or (act.deed != "close" and _is_resolved(act, row)):
            return Applied(deed.lk0, deed.deed, "resolved", "nothing left to do")
        if act.deed == "close" and row.get("outcome") is None:
            return Applied(deed.lk0, deed.deed, "left", "it has not ended at its sender")
        if not is_real:
            return Applied(deed.lk0, deed.deed, "planned", act.words)
        arguments: dict[str, Any] = {"why": f"reconciliation: {deed.finding}"}
        arguments |= {"ids": [deed.lk0]} if act.operation == "failed.remove" else {"id": deed.lk0}
        await client.request(act.operation, arguments, repeat=False)
    except RefusedByNode as error:
        result = "resolved" if error.code in TOO_LATE else "failed"
        return Applied(deed.lk0, deed.deed, result, error.advice())
    except (NodeBusy, NoAnswer) as error:
        return Applied(deed.lk0, deed.deed, "failed", error.advice())
    return Applied(deed.lk0, deed.deed, "done", act.words)


async def _row(client: Client, lk0: str, side: str) -> Mapping[str, Any] | None:
    """Return the message's row in the queue of that side; None if it has left the queue, empty if it is unknown."""
    wanted = "inbound" if side == "receiver" else "outbound"
    try:
        row = await client.look(lk0)
    except RefusedByNode as error:
        if error.code not in TOO_LATE:
            raise
        return UNHEARD_OF
    return row if row.get("side") == wanted and not row.get("cleaned") else None


def _is_resolved(act: RepairAct, row: Mapping[str, Any]) -> bool:
    """Whether the row is already in the state that the deed aims at."""
    if act.side != "receiver":
        return row.get("outcome") is not None
    # The acknowledgements that a row owes, according to the node (R9).
    owes_hub = row.get("lk1") is not None and row.get("p_ack_status") == "AS_INIT"
    return not owes_hub and not (row.get("save_fwd") == CLASS_3 and row.get("s_ack_status") == "AS_INIT")
