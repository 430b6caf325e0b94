"""The answers of ``node.status`` and ``node.health``: identity, state, figures and checks of a node.

Rooms of every floor make their parts, so that they are here and not beside their operations. Fields have defaults: the
answer of a node of an older version may lack them.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from semq.answers import OperationAnswer


class DatagramCounts(msgspec.Struct):
    """Numbers of documents, of ignored datagrams, and of changes of the rate and of the peer's address."""

    sent: int = 0  #: documents that left as datagrams
    received: int = 0  #: documents that arrived as datagrams and were not dropped
    lost: int = 0  #: documents that the peer sent as datagrams and that have not arrived
    lost_there: int = 0  #: documents sent that have not arrived, as the peer reports
    full_there: int = 0  #: documents sent that have arrived and were dropped for lack of room, as the peer reports
    slowed: int = 0  #: halvings of the rate because of the documents that the peer reports as lost or dropped
    # Documents that were not sent as datagrams, by reason.
    too_large: int = 0  #: too large for a datagram
    not_open: int = 0  #: no datagrams pass
    too_fast: int = 0  #: more than the rate or the socket allows, or no route to the peer
    no_room: int = 0  #: those of the three numbers above that were dropped, because the connection had no room either
    # Ignored datagrams, by reason.
    forged: int = 0  #: not authentic
    repeated: int = 0  #: received before, or older than the replay window
    unreadable: int = 0  #: authentic, but with a content that cannot be read
    full: int = 0  #: documents of the peer dropped for lack of room, which do not count as lost
    # Neither documents nor ignored datagrams.
    moved: int = 0  #: changes of the peer's address


class LossState(OperationAnswer, frozen=True, kw_only=True):
    """Documents of one direction in the last minutes."""

    documents: int = 0
    lost: int = 0
    full: int = 0


class PathState(DatagramCounts, kw_only=True):
    """The datagrams of one link: whether they pass, their rate and their counts."""

    state: str = ""  #: open, closed
    why: str = ""  #: it is closed
    datagram_bytes: int = 0  #: largest datagram that passes; 0: none
    bytes_per_s: int = 0  #: rate of sending, at most
    not_open_now: int = 0  #: documents not sent as datagrams since the path closed
    recent_here: LossState = LossState()  #: on the way to this node
    recent_there: LossState = LossState()  #: on the way to the peer


class DatagramStatus(OperationAnswer, frozen=True, kw_only=True):
    """The datagrams of a node."""

    port: int | None = None  #: UDP; null: none is open
    strangers: int = 0  #: datagrams that name no channel
    peers: dict[str, PathState] = msgspec.field(default_factory=dict)


class FileStatus(OperationAnswer, frozen=True, kw_only=True):
    """A file that the configuration names."""

    setting: str = ""
    file: str = ""
    fault: str = ""  #: why it cannot be used; empty: it can
    not_after: str = ""  #: the end of a certificate in it
    days_left: float | None = None


class CertificateStatus(OperationAnswer, frozen=True, kw_only=True):
    """The certificate that a node uses."""

    node: str = ""
    state: str = ""  #: ok, renew, ending, expired, revoked
    serial: str = ""
    fingerprint: str = ""
    key_id: str = ""
    not_after: str = ""
    days_left: float = 0.0  #: negative after the end
    renew_at: str = ""
    fault: str = ""  #: why replaced files are not used; empty: they are


class TelemetryStatus(OperationAnswer, frozen=True, kw_only=True):
    """The export of spans to the collector."""

    exported: int = 0  #: spans
    dropped: int = 0
    forgotten: int = 0  #: documents that were forgotten before their spans ended
    waiting: int = 0  #: spans
    failures: int = 0  #: failed requests in a row
    failing_since: int | None = None  #: milliseconds since 1970 UTC
    last_error: str = ""


class FailingSection(msgspec.Struct, frozen=True):
    """A section whose last attempt has failed."""

    failures: int = 0  #: consecutive failures
    since: int = 0  #: time of the first of these failures, milliseconds since 1970
    error: str = ""  #: text of the last error
    is_paused: bool = False  #: requests are made one at a time, with pauses, because several have failed


class CompanionStatus(OperationAnswer, frozen=True, kw_only=True):
    """A program that runs beside the node."""

    running: bool = False
    starts: int = 0
    exit: int | None = None  #: exit status of the last ended run
    failing: dict[str, FailingSection] = msgspec.field(default_factory=dict)  #: by section
    counts: dict[str, Mapping[str, int]] = msgspec.field(default_factory=dict)  #: events since its start, by section


class CarrierStatus(OperationAnswer, frozen=True, kw_only=True):
    """The carrier between the instances of a hub."""

    connected: bool = False
    address: str = ""  #: of the broker in use
    batches_out: int = 0
    batches_in: int = 0
    waiting_bytes: int = 0
    dropped: int = 0
    foreign: int = 0  #: unreadable batches and messages, and those of another hub


class RefusedRowState(OperationAnswer, frozen=True, kw_only=True):
    """Rows that one rule of the database refused."""

    sqlstate: str = ""
    rule: str = ""  #: table and constraint, or trigger; empty: several others
    count: int = 0
    last: int = 0  #: milliseconds since 1970 UTC
    text: str = ""  #: of the newest refusal


class ViolationState(OperationAnswer, frozen=True, kw_only=True):
    """Violations with one code by one source since the start."""

    who: str = ""
    what: str = ""  #: code
    count: int = 0
    first: int = 0  #: milliseconds since 1970 UTC
    last: int = 0
    text: str = ""  #: the newest violation


class ExtractStatus(OperationAnswer, frozen=True, kw_only=True):
    """The result of the last nightly extract."""

    at: str = ""
    exit_status: int = 0
    output: str = ""  #: its last line


class AmqpFigures(OperationAnswer, frozen=True, kw_only=True):
    """Figures of the AMQP endpoint, of now and since the start."""

    connections: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0
    handshakes_failed: int = 0
    logins_refused: int = 0
    channels: int = 0
    published: int = 0
    delivered: int = 0
    queues: int = 0
    messages_ready: int = 0
    messages_unacked: int = 0
    memory_bytes: int = 0
    store_pending_bytes: int = 0  #: of changes that wait for their commit
    alarms: int = 0  #: times that publishers had to wait


class WriterCounters(msgspec.Struct):
    """Counters of all writers of a store. The seconds include waiting."""

    units: int = 0
    read_only: int = 0  #: units that changed nothing
    works: int = 0
    failed: int = 0  #: pieces of work
    rows: int = 0  #: new rows
    copied: int = 0  #: new rows written by COPY
    load_s: float = 0.0
    decide_s: float = 0.0
    write_s: float = 0.0
    report_s: float = 0.0  #: actions after commits
    largest: int = 0  #: pieces of work in the largest unit
    went_back: int = 0  #: openings of the store after which earlier commits were missing


class HubLink(OperationAnswer, frozen=True, kw_only=True):
    """The link of a local node with its hub."""

    link: str = "down"  #: or up
    node: str | None = None  #: the hub, while the link is up
    last_error: str | None = None

    @property
    def is_up(self) -> bool:
        return self.link == "up"


class DirectLink(OperationAnswer, frozen=True, kw_only=True):
    """The direct link with a partner."""

    link: str = ""  #: up, down
    dialled_by: str = ""  #: this node, partner; empty while it is down
    last_error: str = ""
    sent: int = 0  #: documents, repeats included, since the engine began

    @property
    def is_up(self) -> bool:
        return self.link == "up"


class PartnerStatus(OperationAnswer, frozen=True, kw_only=True):
    """A partner of a local node."""

    online: bool | None = None  #: null: unknown, because there is no link to the hub
    allowed: bool = False  #: documents may be sent to it
    waiting: int = 0  #: documents that have not ended
    quota_reached: bool = False
    agreed: Sequence[str] = ()  #: the first agreements, as text
    sealable: bool = False  #: its certificate is known


class MissingStatus(OperationAnswer, frozen=True, kw_only=True):
    """The documents that a restored node lacks, as its partners answer (``node.missing``)."""

    since: str = ""  #: time from which the partners are asked
    count: int = 0  #: documents
    unanswered: int = 0  #: partners that have not answered yet


class NodeStatus(OperationAnswer, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a node. A field that is None, or a ``hub`` that is UNSET, is absent: the node has no such part, or a
    version without it."""

    node: str = ""
    kind: str = ""  #: local, platform
    started_at: str | None = None
    store_uuid: str | None = None
    boot: int | None = None
    incarnation: str | None = None
    engine_starts: int | None = None
    store_open: bool | None = None
    counters: Mapping[str, int] | None = None  #: of the engine (``semq.counters``)
    violations: Sequence[ViolationState] | None = None  #: of the last day
    amqp: AmqpFigures | None = None
    departures: Mapping[str, int] | None = None  #: messages that left the broker without a consumer, by way
    shortage: str | None = None  #: why publishers wait
    store: WriterCounters | None = None
    missing_commits: str | None = None  #: how it was found that earlier commits are missing
    missing: MissingStatus | None = None
    refused_rows: Sequence[RefusedRowState] | None = None  #: of the last day
    database: Sequence[str] | None = None  #: unmet requirements
    failing_jobs: Mapping[str, str] | None = None  #: errors by job
    waiting_work: int | None = None  #: pieces of work that wait for the writer
    extract: ExtractStatus | None = None
    credential_files: Sequence[FileStatus] | None = None
    telemetry: TelemetryStatus | None = None
    companions: Mapping[str, CompanionStatus] | None = None  #: by section
    certificate: CertificateStatus | None = None
    datagrams: DatagramStatus | None = None
    # Of a local node
    hub: HubLink | UnsetType | None = UNSET  #: None: this node has no hub
    direct: Mapping[str, DirectLink] | None = None  #: by partner
    drained: bool | None = None
    sql_waiting: Mapping[str, str] | None = None  #: why documents submitted by SQL wait, by target
    sql_submissions: Mapping[str, int] | None = None  #: numbers by state
    partners: Mapping[str, PartnerStatus] | None = None
    # Of a hub
    carrier: CarrierStatus | None = None
    certificates: Mapping[str, float] | None = None  #: days until the certificates of institutions end

    @property
    def link(self) -> HubLink | None:
        """The link with the hub; None at a hub, and at a node without one."""
        return self.hub or None


class Check(OperationAnswer, frozen=True, rename={"name": "check"}):
    """The result of one check."""

    name: str = ""
    verdict: str = ""  #: ok, warning (needs attention soon), failing (something does not work now)
    detail: str = ""


class NodeHealth(OperationAnswer, frozen=True, kw_only=True):
    """The checks of a node."""

    node: str = ""
    verdict: str = ""  #: the worst of all checks
    checks: Sequence[Check] = ()
