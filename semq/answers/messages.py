"""Answers of operations about messages: rows of the queues and of the past, lines of the ledger, pages, counts.

The views make rows from the columns of tables, so they are typed mappings, whose fields are absent if a side or a state
does not have them. Times are milliseconds since 1970 UTC; statuses are words.
"""

from typing import TypedDict


class StuckText(TypedDict):
    """The cause for which a message is stuck."""

    cause: str
    meaning: str
    next_step: str


class PieceCount(TypedDict, total=False):
    """The pieces of a large document."""

    count: int
    delivered: int  #: absent at the receiver


class MemberRow(TypedDict, total=False):
    """The message to one member of a group."""

    name: str
    lk0: str
    target: str
    outcome: str | None
    ss_status: str
    reason: list[str] | None


class MessageRow(TypedDict, total=False):
    """A message in a queue, a submission, a group, or a message that has left the queues (``cleaned``)."""

    name: str
    lk0: str
    side: str  #: outbound, inbound; relayed for a message of a hub that has left its queues
    direction: str
    id: int | str  #: number of the row; a text for a submission by SQL
    at: int
    source: str
    target: str
    app_key: str
    size: int
    digest: str
    save_fwd: int
    ack2: bool
    sid: int
    priority: int
    order_key: str
    reason: list[str] | str | None  #: code and text; from the ledger: one text
    # of a sent message
    accepted_at: int
    ss_status: str | None
    outcome: str | None
    att: int
    custodian: str | None
    document: str | None
    expires_at: int | None
    group_place: str | None
    has_payload: bool
    held: bool
    lost: bool
    parked: bool
    void: bool
    token: str | None
    # of a received message
    received_at: int
    status: str
    app_status: str
    p_ack_status: str
    s_ack_status: str
    deliveries: int
    proved: bool
    origin: str  #: proved, not proved
    lk1: str | None
    # of a submission
    submission: int
    state: str
    not_before: int | None
    waits_since: int | None
    # of a piece, a document in pieces, a group
    piece: bool
    pieces: PieceCount
    group: str
    members: list[MemberRow]
    summary: dict[str, int]
    # of a message that has failed, is stuck or has ended
    error: str
    failed_at: int | None
    overdue: bool
    stuck: StuckText
    cleaned: bool
    began_at: int | None
    ended_at: int
    last_event: str


class MessagePage(TypedDict, total=False):
    """A page of messages; ``next``: the arguments of the following page, None on the last one."""

    rows: list[MessageRow]
    next: dict[str, int] | None
    looked_at: int
    as_of: int  #: of ``failed.list``
    of: int  #: of ``failed.list``: all failed messages


class TracedLine(TypedDict, total=False):
    """A line of a ledger about a message."""

    at: int
    side: str
    event: str
    words: str
    att: int
    target: str
    lk1: str
    app_key: str
    digest: str
    size: int
    detail: str
    # in traces of several nodes
    node: str
    via: str  #: node that passed the answer on
    proved: bool
    store: str


class Unanswered(TypedDict):
    """A party that did not answer."""

    node: str
    why: str


class MessageTrace(TypedDict, total=False):
    """The history of a message, or of the members of a group."""

    name: str
    lk0: str
    events: list[TracedLine]
    others: list[str]  #: more messages with the same key
    before: list[str]  #: earlier names of the submission
    members: int
    members_traced: int
    unanswered: list[Unanswered]


class MessageBody(TypedDict, total=False):
    """A payload, or some of its bytes."""

    name: str
    lk0: str
    digest: str
    size: int
    body_base64: str


class AwaitedCause(TypedDict):
    """The thing that a message waits for while it is not stuck, and the time from which it counts as stuck."""

    cause: str
    meaning: str
    stuck_at: int


class LinkOutage(TypedDict):
    """The state of a link that is down."""

    down_since: int | None
    next_attempt_at: int | None
    error: str


class Explanation(TypedDict, total=False):
    """Why a message is stuck, or what it waits for."""

    message: MessageRow
    stuck: StuckText | None
    waits: AwaitedCause | None
    link: LinkOutage | None
    last_events: list[TracedLine]


class Sums(TypedDict, total=False):
    """Messages of a pair, an inbox, a cause or a side."""

    rows: int
    bytes: int
    late: int
    oldest_at: int | None
    source: str
    target: str
    online: bool | None
    store: str  #: at a hub of several
    inbox: str
    cause: str
    meaning: str
    partner: str
    side: str


class OldestDocument(TypedDict):
    """The oldest document that has not ended."""

    at: int
    where: str


class QueueCensus(TypedDict):
    """The messages of a node, counted."""

    as_of: int
    sent: dict[str, int]
    received: dict[str, int]
    submitted: dict[str, int]
    pieces: dict[str, Sums]
    failed: int
    stuck: int
    pairs: list[Sums]
    inboxes: list[Sums]
    oldest: OldestDocument | None


class StuckSums(TypedDict):
    """Stuck messages, counted by cause, partner and side."""

    as_of: int
    rows: list[Sums]
