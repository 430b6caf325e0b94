"""The sections of the configuration file: name, type, bounds, default and description of each setting.

Times are in seconds (``_s``), sizes in bytes (``_bytes``). ``semq config show`` prints the strings below the settings.
"""

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from semq.config.defaults import HOST, NODE_TYPES, PORT
from semq.config.headers import HeaderName, HeaderValue
from semq.engine.settings import DEFAULTS

MIB = 1024 * 1024

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Port = Annotated[int, Field(ge=0, le=65_535)]
NodeId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]  # as in an address


def _hub_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
        raise ValueError("must be amqp://host:port or amqps://host:port")
    if parts.username or parts.password:
        raise ValueError("must not contain a user or a password: the user is node.id, the password is hub.password")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("must end after the port: the virtual host of links is always umx")
    _ = parts.port  # raises ValueError if it is out of range
    return url


def database_url(url: SecretStr) -> SecretStr:
    """Return the URL of a database in libpq's form; of several hosts, it selects the primary. Raises ValueError."""
    scheme, _, rest = url.get_secret_value().partition("://")
    if scheme not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise ValueError("must be postgresql://user:password@host:port/database (or omitted for an embedded server)")
    plain = f"postgresql://{rest}"
    try:
        given = conninfo_to_dict(plain)
    except ProgrammingError:  # its text may contain the password
        raise ValueError("is not a URL of a Postgres server that libpq can read") from None
    if "," in str(given.get("host") or given.get("hostaddr") or "") and "target_session_attrs" not in given:
        plain = f"{plain}{'&' if '?' in plain else '?'}target_session_attrs=read-write"
    return SecretStr(plain)


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("is not a time zone such as Asia/Shanghai") from None
    return name


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return text


Expression = Annotated[str, AfterValidator(_expression)]
HostName = Annotated[str, Field(pattern=r"^[^\x00-\x1f]{1,127}$")]
InboxUser = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,64}$")]  # as in an address
TimeOfDay = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


class Section(BaseModel):
    """The base of all sections. Errors do not contain the input, which may be a secret."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=True,
        coerce_numbers_to_str=True,
    )


class NodeSection(Section):
    """The identity of this node."""

    kind: Literal["local", "platform"]
    """local: an institution's node; platform: the hub"""
    id: NodeId
    """number of the institution; any name for the hub"""
    type: Annotated[int, Field(ge=1, le=255)] | None = None
    """UMX node type; default: 1 for local nodes, 2 for the hub"""
    semq_id: Annotated[int, Field(ge=1, le=0x7FFF_FFFF)] = 1
    """number of this instance; part of every locator that it assigns"""
    semq_db_id: Annotated[int, Field(ge=1, le=0x7FFF_FFFF)] = 1
    """number of this instance's store; part of every locator that it assigns"""
    data_dir: Path | None = None
    """folder of the embedded database and all other files of this node; relative to the file; default: var/ID"""

    @property
    def umx_type(self) -> int:
        return self.type if self.type is not None else NODE_TYPES[self.kind]


class DatabaseSection(Section):
    """The database with the queues."""

    url: Annotated[SecretStr, AfterValidator(database_url)] | None = None
    """URL of a Postgres server, 15 or newer; of several hosts the primary is used; default: an embedded server"""
    migrate: bool = True
    """migrate tables of an older version at the start; false: do not start, and print the command that migrates"""
    ledger_days: Annotated[int, Field(ge=0, le=36_500)] = 400
    """retention of the ledger, its receipts and session keys, in days; 0: unlimited"""

    @property
    def dsn(self) -> str | None:
        """The URL for libpq and psycopg; None for the embedded server."""
        return None if self.url is None else self.url.get_secret_value()


class GrantSection(Section):
    """The permissions of a user in one virtual host: expressions searched in names of exchanges and queues.

    As in RabbitMQ, an empty expression allows nothing, and the default exchange is named amq.default."""

    configure: Expression = ""
    """declare and delete exchanges and queues"""
    write: Expression = ""
    """publish to exchanges, bind queues to exchanges"""
    read: Expression = ""
    """consume from queues, get from and purge them, bind to exchanges"""


EVERYTHING = GrantSection(configure=".*", write=".*", read=".*")


class AmqpUserSection(Section):
    """One application that may log in."""

    password: SecretStr
    """password of the login; also as variable SEMQ_AMQP__USERS__NAME"""
    admin: bool | None = None
    """may administer the node (semq.admin); default: true if neither permissions nor inboxes are set"""
    permissions: dict[HostName, GrantSection] | None = None
    """permissions by virtual host; default: everything in "/" """
    inboxes: list[InboxUser] | None = None
    """users whose inboxes it may open; "": the inbox of the institution itself; default: as permissions allow"""

    @property
    def is_admin(self) -> bool:
        """Whether the user may administer the node."""
        return self.permissions is None and self.inboxes is None if self.admin is None else self.admin

    @property
    def granted(self) -> dict[str, GrantSection]:
        return {"/": EVERYTHING} if self.permissions is None else self.permissions


class AmqpSection(Section):
    """The AMQP 0-9-1 endpoint for applications and, at the hub, for the institutions' nodes."""

    host: str = HOST
    """address to listen on; default: loopback"""
    port: Port = PORT
    """port to listen on; 0: any free port"""
    virtual_hosts: list[HostName] = ["/"]
    """virtual hosts for applications; "/" always exists, for documents and administration; others have queues only"""
    users: dict[Annotated[str, Field(min_length=1, max_length=255)], AmqpUserSection] = {}
    """applications that may log in: name = "password" with all rights in "/", or a table for each user"""
    max_message_bytes: Annotated[int, Field(ge=1, le=1024 * MIB)] = 64 * MIB
    """largest message of a client; a larger one closes its channel with 311"""
    max_connections: Count = 4096
    """open connections; further ones are refused"""
    max_connections_per_address: Count = 1024
    """open connections of one client address; further ones are refused"""
    heartbeat_s: Annotated[int, Field(ge=0, le=65_535)] = 60
    """heartbeat interval proposed to clients; 0: no heartbeats"""
    handshake_s: Seconds = 10.0
    """longest time for a login; slower clients are disconnected"""
    max_channels: Annotated[int, Field(ge=1, le=65_535)] = 2047
    """channels per connection, proposed to clients"""
    max_queues: Count = 100_000
    """queues in each virtual host; a client that declares one more is disconnected"""
    max_unacked_bytes: Count = 256 * MIB
    """unacknowledged bytes of one connection; its deliveries stop at this limit"""
    memory_bytes: Count = 1024 * MIB
    """memory for messages in queues; publishers are blocked, not refused, at this limit"""
    min_free_disk_bytes: Annotated[int, Field(ge=0)] = 256 * MIB
    """free disk space below which publishers are blocked; only at local nodes with an embedded database"""
    tls: bool = False
    """use TLS on this port, with the certificate of this node; other nodes then log in with their certificates"""
    allow_plain: bool = False
    """allow other machines to connect without TLS, and nodes to log in by password: the network can read both"""


class DialledSection(Section):
    """A node that this node dials: pauses between attempts."""

    reconnect_s_min: Seconds = 0.5
    """pause after the loss of a connection; doubled after each failed attempt"""
    reconnect_s_max: Seconds = 10.0
    """longest pause between attempts"""


class HubSection(DialledSection):
    """The hub, as a local node reaches it."""

    url: Annotated[str, AfterValidator(_hub_url)]
    """address of the hub: amqps://host:port (login by certificate) or amqp://host:port (login by password)"""
    more_urls: list[Annotated[str, AfterValidator(_hub_url)]] = []
    """further addresses of the same hub (its standby, another network), tried in turn"""
    password: SecretStr | None = None
    """password of this node, which is nodes."ID".password at the hub; not used with amqps"""
    allow_plain: bool = False
    """allow amqp:// to another machine: the network can read the password and documents"""
    answer_partners: bool = True
    """answer partners who trace (`semq msg trace`) documents that they have exchanged with this institution"""

    @property
    def is_tls(self) -> bool:
        """Whether the link uses TLS with certificates at both ends."""
        return urlsplit(self.url).scheme == "amqps"


def _partner_url(url: str) -> str:
    if urlsplit(url).scheme != "amqps":
        raise ValueError("must be amqps://host:port: a direct link needs certificates at both ends")
    if "@" in urlsplit(url).netloc:
        raise ValueError("must not contain a user or a password: the certificates prove both nodes")
    return _hub_url(url)


class DirectSection(DialledSection):
    """A partner with a direct link to this node. While the link is down, documents go through the hub; without [hub]
    they wait."""

    urls: list[Annotated[str, AfterValidator(_partner_url)]] = []
    """addresses of the partner's node, amqps://host:port, tried in turn; empty: only the partner dials"""


class TlsSection(Section):
    """Certificates: keys of this node, trusted authorities, lifetimes."""

    dir: Path | None = None
    """folder of keys and certificates; relative to the file; default: pki in node.data_dir"""
    trust: Path | None = None
    """PEM file of the trusted authorities; relative to the file; default: the authorities of the enrolment"""
    minimum: Literal["1.2", "1.3"] = "1.3"
    """oldest accepted version of TLS"""
    names: list[Annotated[str, Field(min_length=1, max_length=253)]] = []
    """host names and addresses of this hub, for its own certificate"""
    passphrase_file: Path | None = None
    """file with the passphrase of the private keys, readable by this user only; relative to the file"""
    passphrase_credential: str = ""
    """name of a systemd credential (LoadCredential=) with the passphrase, instead of a file"""
    passphrase_variable: str = ""
    """name of an environment variable with the passphrase, instead of a file, for instance SEMQ_KEY_PASSPHRASE"""
    certificate_days: Annotated[float, Field(gt=0, le=3650)] = 90.0
    """hub: lifetime of certificates; a node renews its certificate after two thirds of the lifetime"""
    token_hours: Annotated[float, Field(gt=0, le=24 * 30)] = 24.0
    """hub: lifetime of an enrolment token"""
    warn_days: Annotated[float, Field(ge=0)] = 14.0
    """health checks warn of a certificate that ends within so many days"""
    keep_keys_days: Annotated[float, Field(ge=0)] = 400.0
    """shortest retention of old keys, which open documents sealed for them; longer than any document is stored"""


class SecrecySection(Section):
    """Seals, signatures, and the proofs that partners must give. Needs certificates ([tls])."""

    required_with: list[NodeId | Literal["*"]] = []
    """institutions with which all documents must be sealed, also with @Encrypt=0; "*": all institutions"""
    unsigned_floors_from: list[NodeId] = []
    """institutions with older nodes, which sign no floors, markers and positions: the hub could forge these"""
    unproved_from: list[NodeId] = []
    """institutions whose documents and receipts are accepted without a proof: the hub could forge these"""
    mixed_network: bool = False
    """require no proof from institutions whose certificate never arrived: the hub could withhold certificates"""
    session_messages: Count = 65_536
    """largest number of documents sealed with one session key"""
    session_bytes: Count = 1024 * MIB
    """largest number of bytes sealed with one session key"""
    session_s: Seconds = 3600.0
    """longest use of one session key"""
    pins: dict[NodeId, list[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]] = {}
    """by institution, the SHA-256 fingerprints of its only accepted certificates"""
    bodies_key_file: Path | None = None
    """file with the secret that encrypts bodies in the database, readable by this user only; relative to the file"""
    bodies_key_credential: str = ""
    """name of a systemd credential (LoadCredential=) with the secret, instead of a file"""
    bodies_key_variable: str = ""
    """name of an environment variable with the secret, instead of a file, for instance SEMQ_BODIES_KEY"""


class AccountSection(Section):
    """One institution at the hub."""

    password: SecretStr | None = None
    """password of the institution's node; default: the node logs in with its certificate only"""
    may_send_to: list[NodeId] | None = None
    """institutions to which the institution may send; default: all"""


class ProtocolSection(Section):
    """The times and limits of PROTOCOL.md section 13."""

    inquiry_s: Seconds = DEFAULTS.inquiry_s
    """time before the first inquiry about a document without an answer; doubled after each inquiry"""
    inquiry_s_max: Seconds = DEFAULTS.inquiry_s_max
    """longest interval between inquiries"""
    inquiry_custody_s_max: Seconds = DEFAULTS.inquiry_custody_s_max
    """longest interval between inquiries about documents stored at the hub"""
    window: Annotated[int, Field(ge=1, le=1 << 24)] = DEFAULTS.window
    """messages of one stream, counted from its oldest unsettled message; must be the same at both ends"""
    flight: Count = DEFAULTS.flight
    """messages to one destination that are sent and not yet answered; further ones wait"""
    credit_messages: Count = DEFAULTS.credit_messages
    """messages on their way from the hub to one node; further ones wait"""
    credit_bytes: Count = 8 * MIB
    """bytes on their way from the hub to one node; further messages wait"""
    cleanup_s: Seconds = DEFAULTS.cleanup_s
    """interval of deletions of settled rows"""
    overdue_s: Seconds = 900.0
    """age from which a document without an outcome is shown as overdue; it does not fail for that reason"""
    quota_rows_per_partner: Count = DEFAULTS.quota_rows_per_partner
    """documents for one partner that have not ended; further ones are refused, none is dropped"""
    max_document_bytes: Annotated[int, Field(ge=1, le=256 * MIB)] = DEFAULTS.max_document_bytes
    """largest document that is sent whole; sender, hub and receiver refuse larger ones, each by its own limit"""
    pieces_from_bytes: Annotated[int, Field(ge=1, le=256 * MIB)] = 16 * MIB
    """size above which documents go in pieces (which: PROTOCOL.md section 24); above max_document_bytes: no pieces"""
    max_large_document_bytes: Annotated[int, Field(ge=1, le=1 << 40)] = DEFAULTS.max_large_document_bytes
    """largest document in pieces; sender and receiver refuse larger ones, each by its own limit"""
    quota_piece_bytes_per_partner: Annotated[int, Field(ge=1, le=1 << 44)] = DEFAULTS.quota_piece_bytes_per_partner
    """bytes in pieces of one sender that wait for applications; further pieces are refused"""


class ExtractSection(Section):
    """Extracts of this node's ledger for the nightly reconciliation."""

    at: TimeOfDay | None = None
    """time of day, in extract.zone, at which completed dates are extracted; default: only on demand"""
    zone: Annotated[str, AfterValidator(_zone)] = "UTC"
    """time zone of business dates; must be the same at the hub and all institutions"""
    cutoff: TimeOfDay = "00:00"
    """time of day at which a business date ends; must be the same at the hub and all institutions"""
    folder: str = ""
    """folder of the extracts, or an address such as s3://…; relative to the file; default: data_dir/extracts"""
    deliver_to: str = ""
    """institution or user to which extracts are sent as documents, to be collected for the hub; default: none"""
    piece_bytes: Annotated[int, Field(ge=4096, le=1 << 30)] = 8 * MIB
    """largest document of a sent extract; a larger extract is sent as several documents"""
    salt_file: Path | None = None
    """file with the secret for hashes of AppKeys, shared by institutions that compare them; default: no hashes"""
    type_in_clear: bool = False
    """extracts contain domain, data type and subtype of AppKeys in clear"""


class FolderSection(Section):
    """A folder for applications: documents in ``out`` are sent, received documents are written to ``in``."""

    path: Path
    """folder that contains out, in, sent and failed; relative to the file"""
    send: bool = True
    """send the files in out/TARGET[/TYPE[/SUBTYPE]]"""
    receive: bool = True
    """write the documents of the inbox to in/SOURCE[/TYPE[/SUBTYPE]]"""
    user: InboxUser = ""
    """user whose inbox is received; default: the institution itself"""
    domain: str = ""
    """domain of the AppKey of sent documents; type and subtype are the folders, the key is the file name"""
    save_fwd: Literal[1, 2, 3] = 3
    """@SaveFwd of sent documents"""
    encrypt: bool = False
    """@Encrypt of sent documents"""
    settle_s: Annotated[float, Field(ge=0, le=3600)] = 2.0
    """time without a change after which a file is sent"""
    keep_sent: bool = True
    """move accepted files to sent, and note their outcome there; false: delete them"""


def _webhook_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError("must be https://host/path")
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise ValueError("must be printable ASCII: write the host in its xn-- form, other characters as %XX")
    if any(not 0 < len(label) < 64 for label in parts.hostname.removesuffix(".").split(".")):
        raise ValueError("must name a host: each part of its name has 1 to 63 characters")
    if parts.username or parts.password or parts.fragment:
        raise ValueError("must not contain a user, a password or a fragment: requests are signed with the secret")
    _ = parts.port  # raises ValueError if it is out of range
    return url


def _proxy_url(url: SecretStr) -> SecretStr:
    parts = urlsplit(url.get_secret_value())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError("must be http://host:port, or http://user:password@host:port")
    _ = parts.port  # raises ValueError if it is out of range
    return url


class WebhookSection(Section):
    """An HTTP address to which received documents or events are posted."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    """name of the webhook in the log and of its queue of events"""
    url: Annotated[str, AfterValidator(_webhook_url)]
    """address: https://host/path"""
    secret: SecretStr
    """key by which requests are signed: whsec_ and base64 of 24 to 64 bytes"""
    next_secret: SecretStr | None = None
    """another key, by which requests are signed, too, so that the application can change its key without a gap"""
    headers: dict[HeaderName, HeaderValue] = {}
    """further headers of the requests, for instance Authorization"""
    certificate: Path | None = None
    """PEM file of the client certificate for the address, with its chain; relative to the file"""
    key: Path | None = None
    """PEM file of the key of this certificate; relative to the file"""
    proxy: Annotated[SecretStr, AfterValidator(_proxy_url)] | None = None
    """proxy to the address: http://host:port; it resolves the host of the address, so needs allow_private"""
    documents: bool = True
    """post the documents of the inbox; a document is acknowledged after an answer 2xx"""
    user: InboxUser = ""
    """user whose inbox is received; default: the institution itself"""
    events: list[Literal["sent", "forwarded", "stored", "delivered", "failed", "refused"]] = []
    """post these events about sent documents"""
    concurrency: Annotated[int, Field(ge=1, le=256)] = 8
    """documents, and events, that are posted in parallel"""
    timeout_s: Seconds = 15.0
    """longest wait for an answer"""
    attempts: Annotated[int, Field(ge=1, le=1000)] = 12
    """failures after which a document is parked; while the application is unavailable (502, 503 …), documents wait"""
    trust: Path | None = None
    """PEM file of the address's authorities; relative to the file; default: the system's authorities"""
    allow_private: bool = False
    """allow addresses on this machine and in private networks"""
    allow_plain: bool = False
    """allow http:// to another machine: the network can read the documents"""


class AlertsSection(Section):
    """The program that is started when the health of this node changes."""

    command: list[Annotated[str, Field(min_length=1)]] = []
    """program and arguments, started without a shell; the alert is JSON on its standard input"""
    after_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """time for which a change must last before the alert"""


class LogSection(Section):
    """The log on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """lowest severity written"""
    format: Literal["auto", "json", "console"] = "auto"
    """auto: console on a terminal, json otherwise"""
