"""Stuck messages: one definition, with a cause and a next step for each (row Q19).

Seed 3.1(2): a tool finds them, a person acts.

Command line, console, metrics and alerts all ask here. A message is stuck when it has not ended in the time that its
operator set (overdue, never called failed for it), or when only a person can move it. Looking changes nothing.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from semq.engine.errors import BodyUnreadable
from semq.umx_t.status import AckStatus, AppStatus, Direction, Outcome, SaveFwd, SendStatus


class Cause(Enum):
    """Why a message does not move: what it means, and what a person can do."""

    HELD = "a person holds it back", "release it (`semq msg release`), or cancel it"
    REFUSED = "it was refused", "read the reason; mend what it names, then submit the document again"
    CANNOT_OPEN = "the receiver cannot open it", "compare the certificates of both nodes; then send it again"
    LINK_DOWN = "this node has no link to the platform", "look at `semq node status`: address, password, network"
    TARGET_UNKNOWN = (
        "the platform knows no such target (any more)",
        "ask the platform's operator: it goes on when the target is there again; `semq msg cancel` ends it as UNKNOWN",
    )
    TARGET_OFFLINE = "its target is not online", "nothing is lost: call the partner if this is unusual"
    NOT_SENT = "it waits for its turn", "look at the rows before it, and at the window of its partner"
    NO_TRANSPORT_ACK = "neither Ack-Fwd nor Ack-Save was heard", "inquiry goes on by itself; look at the platform"
    NO_ACK2 = "its target has not confirmed it", "inquiry goes on by itself; look at the target's node and its store"
    INQUIRY_SILENT = "several inquiries were not answered", "look at the platform and at the target: one of them is ill"
    NOT_CONSUMED = (
        "no application has taken it",
        "start the consumer of semq.inbox, or look why it does not acknowledge",
    )
    BLOCKED_BY_ORDER = "it waits for a document before it", "trace the document before it at its sender"
    UNREADABLE = "what is stored beside it cannot be read", "put the database back, or have the document sent anew"
    PARKED = "the application failed on it too often", "mend the application, then requeue it (`semq failed requeue`)"
    NEVER_RECORDED = (
        "the platform sent it often and the target never recorded it",
        "look at the ledger and the log of the target's node; it is sent again when that node links anew",
    )
    REACK_MISSING = "our acknowledgement is not known to be noted", "inquiry goes on by itself; look at the other side"

    @property
    def meaning(self) -> str:
        """What it means, in words."""
        return self.value[0]

    @property
    def next_step(self) -> str:
        """What a person can do."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the node knows beside the row."""

    now_ms: int
    overdue_ms: int
    link_up: bool = True
    online: Container[str] = ()  #: destination nodes that are present, as far as is known
    nodes: Container[str] | None = None  #: all that there are; None: not known
    asked: Mapping[int, int] | None = None  #: inquiries sent about a row since the last answer
    blocked: Container[int] = ()  #: rows of tb_0030 that wait for one before them


SILENT_AFTER = 3  # so many inquiries without an answer are no chance
CANNOT_OPEN_CODES = "SEMQ-5"  # codes 5000–5999: identity and secrecy
Facts = Mapping[str, Any]  # a row as ``semq.store.reading`` shows it


def why(row: Facts, around: Surroundings) -> Cause | None:
    """Why a row of tb_0031 or tb_0030 does not move, or None if it is not stuck."""
    return _why_inbound(row, around) if row["side"] == "inbound" else _why_outbound(row, around)


def is_overdue(row: Facts, around: Surroundings) -> bool:
    """Whether a row has not ended in the time that its operator set. That alone never means that it has failed."""
    if row["side"] == "inbound":
        is_open = row["app_status"] == AppStatus.NEW.name or _is_owed(row)
        return is_open and around.now_ms - row["received_at"] >= around.overdue_ms
    return row["outcome"] is None and around.now_ms - row["accepted_at"] >= around.overdue_ms


def _why_outbound(row: Facts, around: Surroundings) -> Cause | None:
    if row["outcome"] == Outcome.REJECTED.name:
        cannot_open = row["reason"] and str(row["reason"][0]).startswith(CANNOT_OPEN_CODES)
        return Cause.CANNOT_OPEN if cannot_open else Cause.REFUSED
    if row["outcome"] is not None:
        return None
    if row["held"] and row["reason"] and row["reason"][0] == BodyUnreadable.code:
        return Cause.UNREADABLE
    if row["held"]:
        return Cause.HELD
    if row["parked"]:
        return Cause.NEVER_RECORDED
    if not is_overdue(row, around):
        return None
    if row["direction"] == Direction.RELAYED.name:
        return Cause.NO_ACK2 if _is_online(row, around) else Cause.TARGET_OFFLINE
    return _why_own(row, around)


def _why_own(row: Facts, around: Surroundings) -> Cause:
    if not around.link_up:
        return Cause.LINK_DOWN
    if around.nodes is not None and _node(row) not in around.nodes:
        return Cause.TARGET_UNKNOWN
    if (around.asked or {}).get(row["id"], 0) >= SILENT_AFTER:
        return Cause.INQUIRY_SILENT
    if row["ss_status"] == SendStatus.SS_INIT.name:
        return Cause.NOT_SENT
    if row["ss_status"] == SendStatus.SS_SENT.name:
        return Cause.NO_TRANSPORT_ACK
    return Cause.NO_ACK2 if _is_online(row, around) else Cause.TARGET_OFFLINE


def _is_online(row: Facts, around: Surroundings) -> bool:
    return _node(row) in around.online


def _node(row: Facts) -> str:
    return str(row["target"]).partition("/")[0]


def _why_inbound(row: Facts, around: Surroundings) -> Cause | None:
    if row["app_status"] == AppStatus.PARKED.name:
        return Cause.PARKED
    if not is_overdue(row, around):
        return None
    if row["app_status"] == AppStatus.NEW.name:
        return Cause.BLOCKED_BY_ORDER if row["id"] in around.blocked else Cause.NOT_CONSUMED
    return Cause.REACK_MISSING


def _is_owed(row: Facts) -> bool:
    """Whether an acknowledgement of ours is not known to be noted."""
    owes_platform = row["lk1"] is not None and row["p_ack_status"] == AckStatus.AS_INIT.name
    owes_sender = row["save_fwd"] == SaveFwd.MUST and row["s_ack_status"] == AckStatus.AS_INIT.name
    return bool(owes_platform or owes_sender)
