"""Stuck documents, with a cause and a next step for each.

A message is stuck if it is overdue (it has not ended in the time that the operator set), or if it waits for the act of
a person.
"""

from collections.abc import Callable, Collection, Container, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct

from semq.answers.messages import LinkOutage
from semq.engine.errors import BodyUnreadable, RefusedByOperator
from semq.umx_t.status import AckStatus, AppStatus, Direction, Outcome, SaveFwd, SendStatus


class StuckCause(Enum):
    """The cause of a stuck document: its meaning, the next step for a person, and the next step at the hub where that
    differs. ``{id}`` is the short name of the message, ``{node}`` the other institution.
    """

    HELD = "an operator has held it", "`semq msg release {id}` releases it, `semq msg cancel {id}` cancels it"
    REFUSED = (
        "it was refused",
        "correct the cause (`semq msg show {id}`), then `semq failed requeue {id}`; or `semq failed remove {id}`",
    )
    SUBMISSION_REFUSED = (
        "it was submitted by SQL, scheduled or in pieces, and this node refused it",
        "correct the cause (`semq msg show {id}`), then `semq failed requeue {id}`; or `semq failed remove {id}`",
    )
    SUBMISSION_WAITS = (
        "it was submitted by SQL or scheduled, and this node cannot accept it yet",
        "the node retries: `semq msg show {id}` shows the reason; `semq msg cancel {id}` withdraws it",
    )
    PIECES_LEFT = (
        "its target has not confirmed all its pieces",
        "the node sends them again: `semq msg trace {id}` counts them; check the target's node and its store",
    )
    CANNOT_OPEN = (
        "the receiver could not open it, or did not accept how it was sealed or signed",
        (
            "`semq msg show {id}` shows the reason; compare `semq cert show` of both nodes, "
            "then `semq failed requeue {id}`; or `semq failed remove {id}`"
        ),
    )
    LINK_DOWN = (
        "this node has no link to the hub",
        "`semq node status` shows the error: check address, network, and certificate (without TLS: password)",
    )
    DIRECT_LINK_DOWN = (
        "this node has no hub, and its direct link to the target is down",
        "nothing is lost: `semq node status` shows the error of the link; call the partner if this is unusual",
    )
    TARGET_NOT_CONFIGURED = (
        "this node has no hub, and its configuration does not name the target (any more)",
        "add the target to [direct] and `semq node reload`, or `semq msg cancel {id}`",
    )
    TARGET_UNKNOWN = (
        "the hub does not know its target (any more)",
        "ask the hub's operator to restore the target, or end the document as UNKNOWN: `semq msg cancel {id}`",
        "restore the institution (`semq definitions import`), or `semq held refuse --target {node} --dry-run`",
    )
    TARGET_OFFLINE = (
        "its target is not online",
        "nothing is lost: call the partner if this is unusual; `semq msg cancel {id}` if it is no longer needed",
        (
            "nothing is lost: call the institution; "
            "if it has left the network, `semq held refuse --target {node} --dry-run`"
        ),
    )
    NOT_SENT = (
        "it waits for its turn",
        (
            "rows in SS_INIT with a higher priority go first; list the sent rows that are not acknowledged: "
            "`semq msg list --side outbound --partner {node} --state SS_SENT`"
        ),
    )
    NO_TRANSPORT_ACK = (
        "neither Ack-Fwd nor Ack-Save has arrived",
        "the node continues to ask; `semq msg inquire {id}` asks now; check the hub",
    )
    CUSTODIAN_AWAY = (
        "the store of the hub that has it does not answer",
        "ask the hub's operator (`semq hub stores list`); `custodian` in `semq msg show {id}` names the store",
    )
    COPY_NOT_NOTED = (
        "the store of the hub that sent it has not confirmed our acknowledgement",
        "if it lasts, ask the hub's operator (`semq hub stores list`); `lk1` in `semq msg show {id}` names the store",
    )
    NO_ACK2 = (
        "its target has not confirmed it",
        "the node continues to ask; `semq msg inquire {id}` asks now; check the target's node and its store",
    )
    INQUIRY_SILENT = (
        "several inquiries were not answered",
        "check whether the hub and the target work; `semq msg inquire {id}` asks now",
    )
    NOT_CONSUMED = (
        "no application has taken it",
        "start the consumer of semq.inbox, or check why it does not acknowledge; `semq failed park {id}` parks it",
    )
    BLOCKED_BY_ORDER = (
        "it waits for an earlier document",
        "find that one: `semq msg list --side inbound --partner {node}`, and `semq stuck list` at its sender",
    )
    UNREADABLE = (
        "its stored body cannot be read",
        "restore the database and `semq msg release {id}`, or `semq msg cancel {id}` and submit the document again",
        "restore the database and `semq held resend {id}`, or `semq held refuse {id} --why TEXT`",
    )
    PARKED = (
        "it is parked until an operator decides",
        "correct the cause (`semq failed show {id}`), then `semq failed requeue {id}`; or `semq failed remove {id}`",
    )
    NEVER_RECORDED = (
        "the hub sent it repeatedly, and the target never recorded it",
        "check the log of the target's node; then `semq held resend {id}`, or `semq held refuse {id} --why TEXT`",
    )
    RETURNED = (
        "an operator has refused it, and its sender has not confirmed that yet",
        (
            "its sender learns this when it is online (`semq node list`); "
            "if the hub no longer serves the sender: `semq held refuse {id} --why TEXT`"
        ),
    )
    GIVEN_UP = (
        "an operator of the hub has refused it, and its target has not reported yet whether it had arrived",
        "`semq msg show {id}` shows the reason; it ends when {node} is online or no longer served",
    )
    REACK_MISSING = (
        "its sender has not confirmed our acknowledgement",
        "the node continues to ask; `semq msg inquire {id}` asks now; check the sender's node",
    )

    @property
    def meaning(self) -> str:
        return str(self.value[0])

    def next_step(self, row: "Facts") -> str:
        """Return the next step of a person for a row, at the node that has the row."""
        at_hub = row.get("direction") == Direction.RELAYED.name
        step = str(self.value[-1] if at_hub else self.value[1])
        other = row["source"] if row["side"] == "inbound" else row["target"]
        return step.format(id=row["name"], node=str(other).partition("/")[0].removeprefix("1."))


class Surroundings(Struct, frozen=True):
    """The facts of the node, in addition to the row, on which the cause depends."""

    now_ms: int
    overdue_ms: int
    has_hub: bool = True
    link_up: bool = True
    direct_nodes: Container[str] = ()  #: nodes with a direct session
    online_nodes: Container[str] = ()  #: destination nodes that are present, as far as is known
    known_nodes: Container[str] | None = None  #: all nodes of the hub, or all configured partners; None: not known
    away_rows: Collection[int] = ()  #: rows of tb_0031 whose custodian has not answered
    inquiry_counts: Mapping[int, int] | None = None  #: by row of tb_0031: inquiries sent since the last answer
    blocked_rows: Collection[int] = ()  #: rows of tb_0030 that wait for a predecessor
    #: the state of the link on which documents for a node would leave, while it is down
    outage: Callable[[str], LinkOutage] | None = None

    def reaches(self, node: str) -> bool:
        return self.link_up or node in self.direct_nodes

    def presence(self, node: str) -> bool | None:
        """Return whether a node is online; None: not known, because this node has no link to the hub."""
        is_told = self.link_up or not self.has_hub
        return node in self.direct_nodes or (node in self.online_nodes if is_told else None)


IN_PIECES = "IN_PIECES"  # state of a document whose pieces are on their way
SILENT_AFTER = 3  # inquiries without an answer after which a partner counts as silent
CANNOT_OPEN_CODES = "SEMQ-5"  # codes 5000–5999: identity and secrecy
HELD_FOR = {BodyUnreadable.code: StuckCause.UNREADABLE, RefusedByOperator.code: StuckCause.RETURNED}
Facts = Mapping[str, Any]  # a row as ``semq.store.views.messages`` shows it


def stuck_cause(row: Facts, around: Surroundings) -> StuckCause | None:
    """Return the cause if a row of tb_0031 or tb_0030 is stuck; otherwise None."""
    return _why_inbound(row, around) if row["side"] == "inbound" else _why_outbound(row, around)


def outage_of(cause: StuckCause | None, row: Facts, around: Surroundings) -> LinkOutage | None:
    """Return the state of the link for which a row waits; None if it waits for something else."""
    is_down = cause in (StuckCause.LINK_DOWN, StuckCause.DIRECT_LINK_DOWN)
    return around.outage(target_node(row)) if is_down and around.outage is not None else None


def is_overdue(row: Facts, around: Surroundings) -> bool:
    """Whether a row has not ended in the time that the operator set."""
    if row["side"] == "inbound":
        is_open = row["app_status"] == AppStatus.NEW.name or awaits_confirmation(row)
        return is_open and around.now_ms - row["received_at"] >= around.overdue_ms
    is_open = row["outcome"] is None and not row.get("not_before")  # a scheduled document is not overdue
    return is_open and around.now_ms - row["accepted_at"] >= around.overdue_ms


def _why_outbound(row: Facts, around: Surroundings) -> StuckCause | None:
    if "submission" in row:
        return StuckCause.SUBMISSION_REFUSED if row["outcome"] else _why_submitted(row, around)
    if row["outcome"] == Outcome.UNKNOWN.name and _code(row) == RefusedByOperator.code:
        return StuckCause.REFUSED  # kept for an operator, as other refused documents are
    if row["outcome"] == Outcome.REJECTED.name:
        cannot_open = _code(row).startswith(CANNOT_OPEN_CODES)
        return StuckCause.CANNOT_OPEN if cannot_open else StuckCause.REFUSED
    if row["outcome"] is not None:
        return None
    if row["held"] and _code(row) in HELD_FOR:
        return HELD_FOR[_code(row)]
    if row["held"]:
        return StuckCause.HELD
    if row["parked"]:
        return StuckCause.NEVER_RECORDED
    if row.get("void") and row["direction"] == Direction.OWN.name and _code(row) == RefusedByOperator.code:
        return StuckCause.GIVEN_UP
    if not is_overdue(row, around):
        return None
    if row["direction"] == Direction.RELAYED.name:
        if around.known_nodes is not None and target_node(row) not in around.known_nodes:
            return StuckCause.TARGET_UNKNOWN
        return StuckCause.NO_ACK2 if _is_online(row, around) else StuckCause.TARGET_OFFLINE
    return _why_own(row, around)


def _why_submitted(row: Facts, around: Surroundings) -> StuckCause | None:
    if not (row["reason"] or is_overdue(row, around)):
        return None
    return StuckCause.PIECES_LEFT if row.get("state") == IN_PIECES else StuckCause.SUBMISSION_WAITS


def _code(row: Facts) -> str:
    """Return the code in the reason of a row, or an empty text."""
    return str(row["reason"][0]) if row["reason"] else ""


def _why_own(row: Facts, around: Surroundings) -> StuckCause:
    if not around.has_hub and around.known_nodes is not None and target_node(row) not in around.known_nodes:
        return StuckCause.TARGET_NOT_CONFIGURED
    if not around.reaches(target_node(row)):
        return StuckCause.LINK_DOWN if around.has_hub else StuckCause.DIRECT_LINK_DOWN
    if around.known_nodes is not None and target_node(row) not in around.known_nodes:
        return StuckCause.TARGET_UNKNOWN
    if row["id"] in around.away_rows:
        return StuckCause.CUSTODIAN_AWAY
    if (around.inquiry_counts or {}).get(row["id"], 0) >= SILENT_AFTER:
        return StuckCause.INQUIRY_SILENT
    if row["ss_status"] == SendStatus.SS_INIT.name:
        return StuckCause.NOT_SENT
    if row["ss_status"] == SendStatus.SS_SENT.name and target_node(row) not in around.direct_nodes:
        return StuckCause.NO_TRANSPORT_ACK
    return StuckCause.NO_ACK2 if _is_online(row, around) else StuckCause.TARGET_OFFLINE


def _is_online(row: Facts, around: Surroundings) -> bool:
    return target_node(row) in around.online_nodes


def target_node(row: Facts) -> str:
    """Return the node to which a row of tb_0031 goes."""
    return str(row["target"]).partition("/")[0]


def _why_inbound(row: Facts, around: Surroundings) -> StuckCause | None:
    if row["app_status"] == AppStatus.PARKED.name:
        return StuckCause.PARKED
    if not is_overdue(row, around):
        return None
    if row["app_status"] == AppStatus.NEW.name:
        return StuckCause.BLOCKED_BY_ORDER if row["id"] in around.blocked_rows else StuckCause.NOT_CONSUMED
    return StuckCause.REACK_MISSING if _awaits_sender(row) else StuckCause.COPY_NOT_NOTED


def awaits_confirmation(row: Facts) -> bool:
    """Whether the hub or the sender has not confirmed an acknowledgement of this node yet."""
    awaits_hub = row["lk1"] is not None and row["p_ack_status"] == AckStatus.AS_INIT.name
    return bool(awaits_hub or _awaits_sender(row))


def _awaits_sender(row: Facts) -> bool:
    return bool(row["save_fwd"] == SaveFwd.MUST and row["s_ack_status"] == AckStatus.AS_INIT.name)
