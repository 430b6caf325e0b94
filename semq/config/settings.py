"""All sections of a configuration as one object, and the rules across sections."""

import json
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, PrivateAttr, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from semq.config.cluster import ClusterSection
from semq.config.datagrams import DatagramsSection
from semq.config.defaults import NESTED, PREFIX
from semq.config.descriptions import descriptions_of
from semq.config.nearest import did_you_mean
from semq.config.sections import (
    AccountSection,
    AlertsSection,
    AmqpSection,
    DatabaseSection,
    DirectSection,
    ExtractSection,
    FolderSection,
    HubSection,
    LogSection,
    NodeId,
    NodeSection,
    ProtocolSection,
    SecrecySection,
    Section,
    TlsSection,
    WebhookSection,
)
from semq.config.telemetry import TelemetrySection
from semq.config.web import HttpSection
from semq.seal.webhook_signature import key_of
from semq.umx_t.address import Address
from semq.umx_t.locator import Store

DEFAULT = "default"
STARS = "********"  # shown instead of a secret
RESERVED_HOSTS = {"umx", "enroll"}  # virtual hosts of links and of enrolment


class ExplainedSetting(NamedTuple):
    """One setting for `semq config show`."""

    key: str
    value: str  #: STARS for a secret
    origin: str  #: DEFAULT, a file, or an environment variable
    default: str  #: value without an origin; empty: none
    differs: bool  #: whether the value is another than the default
    help: str


class Settings(BaseSettings):
    """The settings of a node, created by ``semq.config.load``."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        env_prefix=PREFIX,
        env_nested_delimiter=NESTED,
        env_ignore_empty=True,
    )

    node: NodeSection
    database: DatabaseSection = DatabaseSection()
    amqp: AmqpSection = AmqpSection()
    hub: HubSection | None = Field(None, description="the hub of a local node")
    nodes: dict[NodeId, AccountSection] = Field({}, description="institutions, at the hub")
    direct: dict[NodeId, DirectSection] = Field({}, description="partners with a direct link to this node")
    cluster: ClusterSection | None = Field(None, description="instances of a hub: their broker and control database")
    datagrams: DatagramsSection | None = Field(None, description="datagrams (UDP) for documents with @Reliable=0")
    tls: TlsSection = TlsSection()
    secrecy: SecrecySection = SecrecySection()
    protocol: ProtocolSection = ProtocolSection()
    extract: ExtractSection = ExtractSection()
    reconcile: dict[str, Any] = Field({}, description="settings of `semq reconcile`, which reads and checks them")
    folders: list[FolderSection] = Field([], description="folders through which applications send and receive files")
    webhooks: list[WebhookSection] = Field([], description="HTTP addresses to which documents and events are posted")
    http: HttpSection | None = Field(None, description="the web process: console, HTTP API, metrics")
    telemetry: TelemetrySection | None = Field(None, description="export of spans to an OpenTelemetry collector")
    alerts: AlertsSection = AlertsSection()
    log: LogSection = LogSection()

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)
    _file: Path | None = PrivateAttr(default=None)
    _environment: dict[str, str] = PrivateAttr(default_factory=dict)
    _institution: str | None = PrivateAttr(default=None)
    _port_certificate: Path | None = PrivateAttr(default=None)

    @property
    def largest_document_bytes(self) -> int:
        """The size of the largest document that may be submitted, including documents in pieces."""
        protocol = self.protocol
        has_pieces = protocol.pieces_from_bytes <= protocol.max_document_bytes
        return max(protocol.max_document_bytes, protocol.max_large_document_bytes if has_pieces else 0)

    @property
    def address(self) -> Address:
        return Address(self.node.umx_type, self.node.id)

    @property
    def own_store(self) -> Store:
        """The store of the node's rows; processes with the same store name have the same database."""
        return Store(self.node.umx_type, self.node.id, self.node.semq_id, self.node.semq_db_id)

    @property
    def data_dir(self) -> Path:
        """The data directory; absolute after ``load``."""
        return self.node.data_dir or Path("var") / self.node.id

    @property
    def pki_dir(self) -> Path:
        """The folder of keys and certificates; absolute after ``load``."""
        return self.tls.dir or self.data_dir / "pki"

    @property
    def has_no_hub(self) -> bool:
        """Whether this is an institution's node with direct links only."""
        return self.node.kind == "local" and self.hub is None

    @property
    def extracts(self) -> str:
        """The folder of extracts, or an address (s3://…)."""
        return self.extract.folder or str(self.data_dir / "extracts")

    @property
    def file(self) -> Path | None:
        return self._file

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables SEMQ_…, for reading the settings again."""
        return self._environment

    @property
    def institution(self) -> str | None:
        """The institution; None if the file has a single node."""
        return self._institution

    @property
    def port_certificate(self) -> Path | None:
        """The certificate of a port shared by institutions; None without one."""
        return self._port_certificate

    def set_institution(self, institution: str | None, port_certificate: Path | None) -> None:
        self._institution, self._port_certificate = institution, port_certificate

    def set_origins(
        self, origins: dict[str, str], file: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        """Store the sources of the settings; ``origins``: the origin of each value that is not a default."""
        self._origins = origins
        self._file = file
        self._environment = dict(environment or {})

    def values(self) -> dict[str, object]:
        """Return every value by key, including secrets: never for display."""
        return {leaf.key: leaf.value for leaf in _leaves(self, "")}

    def explain(self) -> list[ExplainedSetting]:
        """Return every setting with its value, origin and description."""
        return [
            _explained(leaf, self._origins.get(leaf.list_key or leaf.key, DEFAULT))
            for setting in _leaves(self, "")
            for leaf in _leaves_in_lists(setting)
        ]


def cross_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield key and text of each violation of a rule across settings."""
    kind, nodes = settings.node.kind, settings.nodes
    if kind == "local" and settings.hub is None and not settings.direct:
        yield (
            "hub",
            "missing: a local node needs hub.url (and hub.password if it is not amqps://), or partners in [direct]",
        )
    yield from _hub_faults(settings)
    yield from _plain_faults(settings)
    yield from _user_faults(settings)
    if kind == "local" and nodes:
        yield "nodes", "only the hub has institutions; remove this section or set node.kind to platform"
    if kind == "platform" and settings.hub is not None:
        yield "hub", "this node is the hub; remove this section or set node.kind to local"
    yield from _datagram_faults(settings)
    if kind == "local" and settings.cluster is not None:
        yield "cluster", "only the hub has instances; remove this section or set node.kind to platform"
    yield from _direct_faults(settings)
    yield from _folder_faults(settings)
    yield from _webhook_faults(settings)
    yield from _http_faults(settings)
    yield from _telemetry_faults(settings)
    for node_id, account in nodes.items():
        for target in account.may_send_to or ():
            if target not in nodes:
                yield f"nodes.{node_id}.may_send_to", f"{target} is not among nodes{did_you_mean(target, nodes)}"
    for limit in ("inquiry_s_max", "inquiry_custody_s_max"):
        if settings.protocol.inquiry_s > getattr(settings.protocol, limit):
            yield "protocol.inquiry_s", f"is greater than protocol.{limit}"
    yield from _pause_faults(settings)
    if settings.protocol.max_document_bytes > settings.amqp.max_message_bytes:
        yield "protocol.max_document_bytes", "is greater than amqp.max_message_bytes: such a document could not arrive"


def _pause_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    partners = {f"direct.{partner}": link for partner, link in settings.direct.items()}
    for name, dialled in {"hub": settings.hub, **partners}.items():
        if dialled is not None and dialled.reconnect_s_min > dialled.reconnect_s_max:
            yield f"{name}.reconnect_s_min", f"is greater than {name}.reconnect_s_max"


def _user_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    hosts = {"/", *settings.amqp.virtual_hosts}
    for name in RESERVED_HOSTS & hosts:
        yield "amqp.virtual_hosts", f"{name} is reserved for the hub: choose another name"
    for name, user in settings.amqp.users.items():
        for host in (user.permissions or {}).keys() - hosts:
            suggestion = did_you_mean(host, hosts)
            yield f"amqp.users.{name}.permissions", f"{host} is not among amqp.virtual_hosts{suggestion}"
        if user.inboxes is not None and settings.node.kind != "local":
            yield f"amqp.users.{name}.inboxes", "only local nodes have inboxes; remove this key"


def _direct_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.direct and settings.node.kind != "local":
        yield "direct", "only local nodes have direct links; remove this section"
    for partner, link in settings.direct.items():
        if partner == settings.node.id:
            yield f"direct.{partner}", "is this institution; name a partner instead"
        if not link.urls and not settings.amqp.tls:
            yield (
                f"direct.{partner}.urls",
                "missing: name the partner's address, or set amqp.tls = true so that the partner can dial this node",
            )


def _folder_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the faults of folders, and of inboxes that folders or webhooks share."""
    if settings.folders and settings.node.kind != "local":
        yield "folders", "only local nodes send and receive documents; remove this section"
    for number, folder in enumerate(settings.folders):
        if folder.path in (earlier.path for earlier in settings.folders[:number]):
            yield f"folders.{number}.path", f"{folder.path} is the path of an earlier folder, too"
    receivers = [(f"folders.{number}", folder.user) for number, folder in enumerate(settings.folders) if folder.receive]
    receivers += [(f"webhooks.{number}", hook.user) for number, hook in enumerate(settings.webhooks) if hook.documents]
    for number, (key, user) in enumerate(receivers):
        for earlier_key, earlier_user in receivers[:number]:
            if user == earlier_user:
                yield (
                    f"{key}.user",
                    f"has the inbox of {earlier_key}, too: each document would go to only one of the two",
                )


#: Beginnings of the headers that requests to webhooks have anyway
SIGNED_OR_OWN = ("webhook-", "semq-", "ce-", "content-", "host", "transfer-encoding", "connection", "traceparent")


def _webhook_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.webhooks and settings.node.kind != "local":
        yield "webhooks", "only local nodes send and receive documents; remove this section"
    for number, webhook in enumerate(settings.webhooks):
        host = urlsplit(webhook.url).hostname or ""
        if urlsplit(webhook.url).scheme == "http" and not (webhook.allow_plain or is_loopback(host)):
            yield f"webhooks.{number}.url", "leads to another machine without TLS: use https://, or set allow_plain"
        if webhook.name in (earlier.name for earlier in settings.webhooks[:number]):
            yield f"webhooks.{number}.name", f"{webhook.name} is the name of an earlier webhook, too"
        for name, secret in (("secret", webhook.secret), ("next_secret", webhook.next_secret)):
            try:
                if secret is not None:
                    key_of(secret.get_secret_value())
            except ValueError as error:
                yield f"webhooks.{number}.{name}", str(error)
        if (webhook.certificate is None) != (webhook.key is None):
            missing = "key" if webhook.key is None else "certificate"
            yield f"webhooks.{number}.{missing}", "missing: certificate and key must be set together"
        if webhook.proxy is not None and not webhook.allow_private:
            yield (
                f"webhooks.{number}.proxy",
                "resolves the address, so that this node cannot check it: set allow_private",
            )
        if own := sorted(name for name in webhook.headers if name.lower().startswith(SIGNED_OR_OWN)):
            yield f"webhooks.{number}.headers", f"the node sets {own[0]} itself"


def _http_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    http = settings.http
    if http is None:
        return
    if (http.certificate is None) != (http.key is None):
        yield (
            f"http.{'key' if http.key is None else 'certificate'}",
            "missing: certificate and key must be set together",
        )
    is_tls = http.certificate is not None
    if not (is_tls or http.allow_plain or is_loopback(http.host)):
        yield "http.host", "other machines could connect without TLS: set certificate and key, or http.allow_plain"
    if http.client_authorities is not None and not is_tls:
        yield "http.client_authorities", "client certificates need TLS: set certificate and key"
    if http.certificates and http.client_authorities is None:
        yield "http.certificates", "no client certificate is accepted without http.client_authorities"
    if http.oidc is not None and "openid" not in http.oidc.scopes:
        yield "http.oidc.scopes", "must contain openid"
    if http.url and urlsplit(http.url).scheme not in ("http", "https"):
        yield "http.url", "must be https://host or http://host"


def _telemetry_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    telemetry = settings.telemetry
    if telemetry is None or telemetry.allow_plain:
        return
    parts = urlsplit(telemetry.endpoint)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield "telemetry.endpoint", "leads to another machine without TLS: use https://, or set telemetry.allow_plain"


def _datagram_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    is_dialled = settings.node.kind == "platform" or bool(settings.direct)
    for key in ("advertised_host", "advertised_port") if not is_dialled else ():
        if settings.datagrams is not None and getattr(settings.datagrams, key):
            yield (
                f"datagrams.{key}",
                "only a hub, or a node with direct links, offers an address for datagrams; remove this key",
            )


def _hub_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    hub = settings.hub
    if hub is None:
        return
    if any(urlsplit(url).scheme != urlsplit(hub.url).scheme for url in hub.more_urls):
        yield "hub.more_urls", "must begin like hub.url: all with amqps://, or all with amqp://"
    if len({hub.url, *hub.more_urls}) <= len(hub.more_urls):
        yield "hub.more_urls", "names an address twice"


def _plain_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    amqp, hub = settings.amqp, settings.hub
    if not (amqp.tls or amqp.allow_plain or is_loopback(amqp.host)):
        yield "amqp.host", "other machines could connect without TLS: set amqp.tls, or amqp.allow_plain to permit it"
    if hub is not None and not hub.is_tls:
        if hub.password is None:
            yield (
                "hub.password",
                f"missing (or {PREFIX}HUB__PASSWORD): a login by amqp:// needs it; amqps:// uses a certificate",
            )
        for name, url in [("hub.url", hub.url), *(("hub.more_urls", url) for url in hub.more_urls)]:
            if not (hub.allow_plain or is_loopback(urlsplit(url).hostname or "")):
                yield name, "leads to another machine without TLS: use amqps://, or set hub.allow_plain to permit it"
    cluster = settings.cluster
    for carrier in cluster.carrier if cluster is not None and not cluster.allow_plain else ():
        parts = urlsplit(carrier.get_secret_value())
        if parts.scheme == "amqp" and not is_loopback(parts.hostname or ""):
            yield (
                "cluster.carrier",
                "leads to another machine without TLS: use amqps://, or set cluster.allow_plain to permit it",
            )
    if not amqp.tls:
        for node_id, account in settings.nodes.items():
            if account.password is None:
                yield f"nodes.{node_id}.password", "missing: without amqp.tls a node can log in only with a password"


def is_loopback(host: str) -> bool:
    """Return whether a host is the loopback of this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Leaf(NamedTuple):
    """One setting: ``field`` of ``section``."""

    key: str
    value: object
    section: type[BaseModel]
    field: str
    list_key: str = ""  #: key of the list of sections in which it is set; otherwise empty


def _leaves(value: object, prefix: str, section: type[BaseModel] = BaseSettings, field: str = "") -> Iterator[_Leaf]:
    """Yield the settings in ``value``. ``prefix``: key of ``value`` and a dot, or empty."""
    if isinstance(value, Section | BaseSettings):
        for name in type(value).model_fields:
            yield from _leaves(getattr(value, name), f"{prefix}{name}.", type(value), name)
    elif isinstance(value, dict) and value:
        for name, member in value.items():
            yield from _leaves(member, f"{prefix}{name}.", section, field)
    else:
        yield _Leaf(prefix.rstrip("."), value, section, field)


def _leaves_in_lists(leaf: _Leaf) -> Iterator[_Leaf]:
    """Yield the settings in a list of sections, or any other setting unchanged."""
    if not (isinstance(leaf.value, list) and leaf.value and isinstance(leaf.value[0], Section)):
        yield leaf
        return
    for number, section in enumerate(leaf.value):
        for member in _leaves(section, f"{leaf.key}.{number}."):
            yield member._replace(list_key=leaf.key if member.field in section.model_fields_set else "")


def _explained(leaf: _Leaf, origin: str) -> ExplainedSetting:
    field = leaf.section.model_fields[leaf.field]
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    shown, shown_default = _shown(leaf.value), _shown(default)
    differs = origin != DEFAULT and leaf.value != default
    return ExplainedSetting(leaf.key, shown, origin, shown_default, differs, _description(leaf))


def _description(leaf: _Leaf) -> str:
    return leaf.section.model_fields[leaf.field].description or descriptions_of(leaf.section).get(leaf.field, "")


def _shown(value: object) -> str:
    """Return a value as in the file, text without quotes; STARS for secrets; empty if not set."""
    if isinstance(value, SecretStr) or (isinstance(value, list) and any(isinstance(one, SecretStr) for one in value)):
        return STARS
    if value is None or value == {}:
        return ""
    if isinstance(value, bool | list):
        return json.dumps(value, ensure_ascii=False, default=str)  # times of [reconcile] have no form in JSON
    return str(value)
