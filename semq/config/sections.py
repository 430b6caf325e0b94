"""The sections of the configuration file, field for field: names, types, bounds, defaults. No reading, no checking
across.

Times are seconds (``_s``), sizes are bytes (``_bytes``). Secrets are ``SecretStr``: no log, error or table shows
them. The comments behind the fields are the help that ``semq config show`` prints.
"""

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from semq.config.reach import HOST, PORT

MIB = 1024 * 1024

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Port = Annotated[int, Field(ge=0, le=65_535)]
NodeId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]  # as in an address, semq.umx_t.address


def _hub_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
        raise ValueError("must be amqp://host:port or amqps://host:port")
    if parts.username or parts.password:
        raise ValueError("must not hold a user or a password: the user is node.id, the password stands in hub.password")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("must end after the port: the virtual host of links is always umx")
    _ = parts.port  # raises ValueError itself when it is out of range
    return url


def _database_url(url: SecretStr) -> SecretStr:
    scheme = url.get_secret_value().partition("://")[0]
    if scheme not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise ValueError("must be postgresql://user:password@host:port/database (or omitted for an embedded server)")
    return url


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("is no time zone such as Asia/Shanghai") from None
    return name


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text


Expression = Annotated[str, AfterValidator(_expression)]
HostName = Annotated[str, Field(pattern=r"^[^\x00-\x1f]{1,127}$")]
InboxUser = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,64}$")]  # as in an address
TimeOfDay = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


class Section(BaseModel):
    """What all sections have in common: unknown keys are refused, nothing changes after loading, no input in errors."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=True,
        use_attribute_docstrings=True,
        coerce_numbers_to_str=True,
    )


class Node(Section):
    """Who this node is."""

    kind: Literal["local", "platform"]
    """local: an institution's node; platform: the hub"""
    id: NodeId
    """the institution's number; for the platform any name"""
    type: Annotated[int, Field(ge=1, le=255)] | None = None
    """UMX node type; 1 for local nodes and 2 for the platform unless given"""
    semq_id: Annotated[int, Field(ge=1, le=0x7FFF_FFFF)] = 1
    """number of this instance, the first part of every locator it gives out"""
    semq_db_id: Annotated[int, Field(ge=1, le=0x7FFF_FFFF)] = 1
    """number of this instance's store, the second part"""
    data_dir: Path | None = None
    """folder for the embedded database and all else this node keeps; var/ID unless given; relative to the file"""

    @property
    def umx_type(self) -> int:
        """The UMX node type, derived from the kind if it was not given."""
        return self.type if self.type is not None else {"local": 1, "platform": 2}[self.kind]


class Database(Section):
    """Where the queues are kept."""

    url: Annotated[SecretStr, AfterValidator(_database_url)] | None = None
    """a Postgres 14 or newer; without it the node starts its own in data_dir"""
    migrate: bool = True
    """bring an older schema up to date at start; false: refuse to start and name the command"""
    ledger_days: Annotated[int, Field(ge=0, le=36_500)] = 400
    """so many days the ledger remembers (with its receipts and session keys); 0: for ever"""

    @property
    def dsn(self) -> str | None:
        """The URL in the form that libpq, psycopg and SQLAlchemy all read; None for the embedded server."""
        return None if self.url is None else "postgresql://" + self.url.get_secret_value().partition("://")[2]


class Grant(Section):
    """What a user may do in one virtual host: expressions that are searched in names of exchanges and queues.

    As in RabbitMQ: what is left out or empty allows nothing; the default exchange goes by the name amq.default."""

    configure: Expression = ""
    """declare and delete"""
    write: Expression = ""
    """publish to exchanges, bind queues"""
    read: Expression = ""
    """consume, get and purge queues, bind to exchanges"""


EVERYTHING = Grant(configure=".*", write=".*", read=".*")


class AmqpUser(Section):
    """One application that may log in."""

    password: SecretStr
    """also as SEMQ_AMQP__USERS__NAME"""
    admin: bool | None = None
    """may use semq.admin; left out: only if neither permissions nor inboxes are given"""
    permissions: dict[HostName, Grant] | None = None
    """by virtual host; left out: everything in "/" """
    inboxes: list[InboxUser] | None = None
    """of which users of this node it may open inboxes; "": of the institution itself; left out: as permissions say"""

    @property
    def is_admin(self) -> bool:
        """Whether the door of administrators is open to it."""
        return self.permissions is None and self.inboxes is None if self.admin is None else self.admin

    @property
    def granted(self) -> dict[str, Grant]:
        """Its permissions by virtual host."""
        return {"/": EVERYTHING} if self.permissions is None else self.permissions


class Amqp(Section):
    """Where this node listens for AMQP 0-9-1: applications, and on the platform the institutions' nodes."""

    host: str = HOST
    """address to listen on; loopback unless you say otherwise"""
    port: Port = PORT
    """0: any free port"""
    virtual_hosts: list[HostName] = ["/"]
    """for applications; "/" is always there, with documents and administration, others hold plain queues"""
    users: dict[Annotated[str, Field(min_length=1, max_length=255)], AmqpUser] = {}
    """applications that may log in: name = "password" for all rights in "/", or a table for each"""
    max_message_bytes: Annotated[int, Field(ge=1, le=1024 * MIB)] = 64 * MIB
    """a larger message of a client closes its channel with 311"""
    max_connections: Count = 4096
    """further connections are refused"""
    max_connections_per_address: Count = 1024
    """the same, of one client address"""
    heartbeat_s: Annotated[int, Field(ge=0, le=65_535)] = 60
    """proposed to clients; 0: none"""
    handshake_s: Seconds = 10.0
    """a client that has not logged in by then is dropped"""
    max_channels: Annotated[int, Field(ge=1, le=65_535)] = 2047
    """on one connection, proposed to clients"""
    max_queues: Count = 100_000
    """in one virtual host; a client that declares one more is disconnected"""
    max_unacked_bytes: Count = 256 * MIB
    """delivered to one connection and not acknowledged; then it gets no more"""
    memory_bytes: Count = 1024 * MIB
    """messages that queues hold in memory; beyond that publishers are blocked, not refused"""
    min_free_disk_bytes: Annotated[int, Field(ge=0)] = 256 * MIB
    """with an embedded database: with less free space publishers are blocked"""
    tls: bool = False
    """serve TLS on this port, with the certificate of this node; then nodes log in by theirs"""
    allow_plain: bool = False
    """let other machines come without TLS, and nodes with passwords: anybody on the way can read them"""


class Hub(Section):
    """How a local node reaches the platform."""

    url: Annotated[str, AfterValidator(_hub_url)]
    """amqps://host:port, with the certificate of this node; amqp://host:port with the password"""
    password: SecretStr | None = None
    """the platform knows it as nodes."ID".password; none with amqps"""
    allow_plain: bool = False
    """let amqp:// lead to another machine: anybody on the way can read what is sent"""
    answer_partners: bool = True
    """tell partners who ask (`semq msg trace`) what has become here of the documents between them and us"""
    reconnect_s_min: Seconds = 0.5
    """wait after the first lost connection; doubled each time"""
    reconnect_s_max: Seconds = 10.0
    """longest wait"""

    @property
    def is_tls(self) -> bool:
        """Whether the link is encrypted, and both ends show certificates."""
        return urlsplit(self.url).scheme == "amqps"


class Tls(Section):
    """Certificates: who this node is, whom it believes, and where its keys are."""

    dir: Path | None = None
    """folder of keys and certificates; pki in node.data_dir unless given; relative to the file"""
    trust: Path | None = None
    """PEM file of the authorities to believe; those of the enrolment unless given"""
    minimum: Literal["1.2", "1.3"] = "1.3"
    """oldest version of TLS that is spoken"""
    names: list[Annotated[str, Field(min_length=1, max_length=253)]] = []
    """host names and addresses of this hub, for the certificate that it makes for itself"""
    passphrase_file: Path | None = None
    """file with the passphrase of the private keys, readable for this user only"""
    passphrase_credential: str = ""
    """the same as a systemd credential: its name in LoadCredential="""
    passphrase_variable: str = ""
    """the same as an environment variable: its name, for instance SEMQ_KEY_PASSPHRASE"""
    certificate_days: Annotated[float, Field(gt=0, le=3650)] = 90.0
    """hub: how long certificates are valid; nodes renew theirs at two thirds of it"""
    token_hours: Annotated[float, Field(gt=0, le=24 * 30)] = 24.0
    """hub: how long an enrolment token is good"""
    warn_days: Annotated[float, Field(ge=0)] = 14.0
    """warn of a certificate that ends within this time"""
    keep_keys_days: Annotated[float, Field(ge=0)] = 400.0
    """how long an old key can still open what was sealed for it; longer than anything may be stored"""


class Secrecy(Section):
    """What is sealed between institutions, and what their receipts prove. Needs certificates ([tls])."""

    required_with: list[NodeId | Literal["*"]] = []
    """institutions whose documents have to be sealed, both ways, whether or not @Encrypt says so; "*": all"""
    unsigned_floors_from: list[NodeId] = []
    """institutions with nodes of an older version, which sign no floors, markers, positions: a hub can forge them"""
    unproved_from: list[NodeId] = []
    """institutions whose documents and receipts count although nothing proves them: a hub can forge them"""
    mixed_network: bool = False
    """the same for every institution of which no certificate was ever known; the hub says which have one"""
    session_messages: Count = 65_536
    """a session key serves at most so many documents"""
    session_bytes: Count = 1024 * MIB
    """and so many bytes"""
    session_s: Seconds = 3600.0
    """and so long"""
    pins: dict[NodeId, list[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]] = {}
    """SHA-256 fingerprints of the only certificates that are believed of an institution"""
    bodies_key_file: Path | None = None
    """file with a secret under which bodies in the queues' tables are encrypted, readable for this user only"""
    bodies_key_credential: str = ""
    """the same as a systemd credential: its name in LoadCredential="""
    bodies_key_variable: str = ""
    """the same as an environment variable: its name, for instance SEMQ_BODIES_KEY"""


class Account(Section):
    """One institution that the platform knows."""

    password: SecretStr | None = None
    """the node logs in with it; left out: only with its certificate"""
    may_send_to: list[NodeId] | None = None
    """institutions it has agreements with; omitted: all"""


class Protocol(Section):
    """The numbers of PROTOCOL.md section 13."""

    inquiry_s: Seconds = 15.0
    """first inquiry about a message without an answer; doubled each time"""
    inquiry_s_max: Seconds = 300.0
    """longest interval between inquiries"""
    inquiry_custody_s_max: Seconds = 3600.0
    """the same for messages that the platform holds"""
    window: Annotated[int, Field(ge=1, le=1 << 24)] = 65_536
    """positions of one stream beyond its oldest unsettled message; both ends must have the same"""
    flight: Count = 512
    """messages to one destination that are sent and not yet answered"""
    credit_messages: Count = 1024
    """messages that the platform has under way to one node"""
    credit_bytes: Count = 8 * MIB
    """the same, in bytes"""
    cleanup_s: Seconds = 1.0
    """pause between two sweeps over settled rows"""
    overdue_s: Seconds = 900.0
    """a message without an outcome is shown as overdue after this time; it is never called failed for it"""
    quota_rows_per_partner: Count = 1_000_000
    """unsettled messages to one partner; further ones are refused, nothing is dropped"""
    max_document_bytes: Annotated[int, Field(ge=1, le=256 * MIB)] = 64 * MIB
    """a larger document is refused: at submit, by the platform and by the receiver, each by its own number"""


class Extract(Section):
    """What of this node's ledger goes to the nightly reconciliation, when, and how."""

    at: TimeOfDay | None = None
    """time of day, in the zone, at which the dates that are over are extracted; omitted: only on demand"""
    zone: Annotated[str, AfterValidator(_zone)] = "UTC"
    """time zone of business dates; the same at the hub and at all institutions"""
    cutoff: TimeOfDay = "00:00"
    """when one business date ends and the next begins; the same everywhere"""
    folder: str = ""
    """where extracts are written: data_dir/extracts unless given; a shared folder, or an address such as s3://…"""
    deliver_to: str = ""
    """institution, or user of one, that collects extracts for the hub: they are sent to it as documents"""
    piece_bytes: Annotated[int, Field(ge=4096, le=1 << 30)] = 8 * MIB
    """a longer parcel is sent as several documents"""
    salt_file: Path | None = None
    """secret for the hashes of AppKeys, shared by those who want to be matched by them; omitted: none leave"""
    type_in_clear: bool = False
    """let domain, data type and subtype of AppKeys leave in clear"""


class Folder(Section):
    """A folder as a door for applications: files in ``out`` are sent, what arrives is written to ``in``."""

    path: Path
    """the folder around out, in, sent and failed; relative to the file"""
    send: bool = True
    """send what is put into out/TARGET[/TYPE[/SUBTYPE]]"""
    receive: bool = True
    """write the documents of the inbox to in/SOURCE[/TYPE[/SUBTYPE]]"""
    user: InboxUser = ""
    """whose inbox; the institution's own unless given"""
    domain: str = ""
    """domain of the AppKey of what is sent; type and subtype are the folders, the key is the file name"""
    save_fwd: Literal[1, 2, 3] = 3
    """@SaveFwd of what is sent"""
    encrypt: bool = False
    """@Encrypt of what is sent"""
    settle_s: Annotated[float, Field(ge=0, le=3600)] = 2.0
    """a file is complete when it has not changed for so long"""
    keep_sent: bool = True
    """move accepted files to sent, where the outcome is noted; false: delete them"""


class Alerts(Section):
    """Whom to tell when the health of this node changes."""

    command: list[Annotated[str, Field(min_length=1)]] = []
    """program and arguments, started without a shell; what there is to say is JSON on its standard input"""
    after_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """tell of a change that has lasted so long"""


class Log(Section):
    """What the node tells on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """the least severity that is written"""
    format: Literal["auto", "json", "console"] = "auto"
    """auto: console on a terminal, json otherwise"""
