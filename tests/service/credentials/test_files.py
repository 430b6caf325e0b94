"""Files with certificates, keys and secrets: all are in a table, their ends are foretold, each may be replaced."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace as replace_fields
from pydantic import BaseModel, SecretStr

from local_node.virtual.server import read_server
from local_node.virtual.shared import SharedHost
from platform_node.cluster import Membership
from semq.clock import SystemClock
from semq.config import load
from semq.config.institutions import ServerSettings
from semq.config.sections import WebhookSection
from semq.config.settings import Settings
from semq.config.telemetry import TelemetrySection
from semq.config.web import HttpSection
from semq.errors import SemqError
from semq.service.credentials.files import CONNECTION, IDENTITY, TABLE, examine
from semq.service.credentials.identity import NodeIdentity
from semq.service.monitoring.health import _credential_files
from semq.service.telemetry.collector import OtlpCollector
from semq.transport.dialer import DialConfig, dial
from semq.transport.errors import DialFailed
from semq.transport.tls_files import TlsFiles
from semq.transport.turn import Turn
from semq.web.transport.server import Server
from semq.webhooks.destination import Webhook
from semq.webhooks.messages import WebhookRequest
from tests.pki.people import NOW, add, authority, ring
from tests.service.companion.reported import ConnectedStates
from tests.service.credentials.test_identity import CONFIG, SettableClock
from tests.transport.pair import pair
from tests.transport.test_listener import certificate
from tests.webhooks.hook import Hook, serving

#: Settings with a path that is none of a file with certificates, keys or secrets
OTHER_PATHS = {"node.data_dir", "tls.dir", "folders.*.path", "server.data_dir"}


def paths_of(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the settings that are paths."""
    for name, field in section.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        if Path in kinds:
            yield f"{prefix}{name}"
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                is_list = getattr(field.annotation, "__origin__", None) is list
                yield from paths_of(kind, f"{prefix}{name}.{'*.' if is_list else ''}")


def test_every_setting_with_a_path_is_in_the_table() -> None:
    found = {*paths_of(Settings), *paths_of(ServerSettings)}
    assert found - OTHER_PATHS == {row.setting for row in TABLE}


def replace(path: Path, other: Path) -> None:
    """Replace a file as an administrator or a program does: by another file, not by writing into it."""
    new = path.with_name(f"{path.name}.new")
    shutil.copy(other, new)
    new.replace(path)


class Party:
    """Two certificates of one server, and the file that it uses."""

    def __init__(self, folder: Path) -> None:
        self.first, self.second = certificate(folder, "first", None), certificate(folder, "second", None)
        self.used = folder / "used.pem"
        shutil.copy(self.first, self.used)

    def replace(self) -> None:
        replace(self.used, self.second)


async def presented(port: int) -> bytes:
    """Return the certificate that a server presents."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(True)
    writer.close()
    return found


def der(pem: Path) -> bytes:
    text = pem.read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERT") :].partition("-----END CERTIFICATE-----")[0]
                                    + "-----END CERTIFICATE-----\n")  # fmt: skip


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@asynccontextmanager
async def web(**http: Any) -> AsyncIterator[Server]:
    server = Server(HttpSection(host="127.0.0.1", port=0, **http), answer)
    await server.start()
    yield server
    await server.stop()


async def http_certificate(folder: Path) -> None:
    own = Party(folder)
    async with web(certificate=own.used, key=own.used) as server:
        assert await presented(server.port) == der(own.first)
        own.replace()
        assert await presented(server.port) == der(own.second)


async def http_key(folder: Path) -> None:
    """While only one file of the pair is replaced, the former pair stays in use."""
    own = Party(folder)
    key = folder / "key.pem"
    shutil.copy(own.first, key)
    async with web(certificate=own.used, key=key) as server:
        own.replace()
        assert await presented(server.port) == der(own.first)
        replace(key, own.second)
        assert await presented(server.port) == der(own.second)


async def http_client_authorities(folder: Path) -> None:
    own, clients = Party(folder), Party(folder / "clients")
    async with web(certificate=own.used, key=own.used, client_authorities=clients.used) as server:

        async def is_accepted(pem: Path) -> bool:
            tls = ssl.create_default_context(cafile=str(own.used))
            tls.check_hostname = False
            tls.load_cert_chain(pem)
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls)
                writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
                content = await reader.read()
                writer.close()
            except (ssl.SSLError, ConnectionError):
                return False
            return b"204" in content

        assert [await is_accepted(pem) for pem in (clients.first, clients.second)] == [True, False]
        clients.replace()
        assert [await is_accepted(pem) for pem in (clients.first, clients.second)] == [False, True]


async def server_certificate(folder: Path) -> None:
    own = Party(folder)
    file = folder / "server.toml"
    file.write_text(f'[server]\nid = "s"\ndata_dir = "{folder}/data"\ncertificate = "{own.used}"\nkey = "{own.used}"\n')
    tls = SharedHost(read_server(file), SystemClock()).port.listener.config.tls
    async with pair(tls=tls) as endpoints:
        assert await presented(endpoints.server.port) == der(own.first)
        own.replace()
        assert await presented(endpoints.server.port) == der(own.second)


async def cluster_trust(folder: Path) -> None:
    """The trusted authority of the carrier is replaced, as the carrier itself is."""
    own, trusted = Party(folder), Party(folder / "trusted")
    shutil.copy(own.first, trusted.used)
    tls = TlsFiles((own.used,), lambda: _server_context(own.used))
    async with pair(tls=tls) as endpoints:
        url = f"amqps://guest:guest@127.0.0.1:{endpoints.server.port}/"
        section = type("Section", (), {"trust": trusted.used, "carrier": [SecretStr(url)]})()
        cluster: Any = Membership.__new__(Membership)
        cluster._section, cluster._settings = section, load_node(folder)
        cluster.store = "1.1"
        [config] = cluster._dial_configs()
        await _dial(config)
        own.replace()
        with pytest.raises(DialFailed):
            await _dial(config)
        replace(trusted.used, own.second)
        await _dial(config)


async def _dial(config: DialConfig) -> None:
    link = await dial(config, SystemClock(), Turn())
    await link.close()


def _server_context(pem: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)
    return context


@asynccontextmanager
async def hook_of(first: Path) -> AsyncIterator[tuple[Hook, ssl.SSLContext]]:
    """Run an HTTP server, whose certificate a test may change."""
    tls = _server_context(first)
    with serving(tls) as hook:
        yield hook, tls


async def telemetry_trust(folder: Path) -> None:
    own, trusted = Party(folder), Party(folder / "trusted")
    shutil.copy(own.first, trusted.used)
    async with hook_of(own.first) as (hook, tls):
        endpoint = hook.url.replace("http:", "https:")
        collector = OtlpCollector(TelemetrySection(endpoint=endpoint, trust=trusted.used), SystemClock())
        answers = [(await collector.post(b"{}")).is_accepted]
        replace(trusted.used, own.second)
        answers.append((await collector.post(b"{}")).is_accepted)
        tls.load_cert_chain(own.second)
        answers.append((await collector.post(b"{}")).is_accepted)
        await collector.close()
        assert answers == [True, False, True]


@asynccontextmanager
async def webhook(hook: Hook, **more: Any) -> AsyncIterator[Callable[[], Awaitable[bool]]]:
    section = {"name": "erp", "url": hook.url.replace("http:", "https:"), "allow_private": True, **more}
    section["secret"] = SecretStr("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    destination = Webhook(WebhookSection.model_validate(section), SystemClock(), ConnectedStates().states)

    async def is_accepted() -> bool:
        try:
            await destination.post(WebhookRequest("id", {"content-length": "1"}, b"x"))
        except SemqError:
            return False
        return True

    yield is_accepted
    await destination.close()


async def webhooks_trust(folder: Path) -> None:
    own, trusted = Party(folder), Party(folder / "trusted")
    shutil.copy(own.first, trusted.used)
    async with hook_of(own.first) as (hook, tls), webhook(hook, trust=trusted.used) as is_accepted:
        accepted = [await is_accepted()]
        replace(trusted.used, own.second)
        accepted.append(await is_accepted())
        tls.load_cert_chain(own.second)
        accepted.append(await is_accepted())
    assert accepted == [True, False, True]


async def webhooks_certificate(folder: Path) -> None:
    own, clients = Party(folder), Party(folder / "clients")
    tls = _server_context(own.first)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(clients.second)
    files = {"trust": own.first, "certificate": clients.used, "key": clients.used}
    with serving(tls) as hook:
        async with webhook(hook, **files) as is_accepted:
            accepted = [await is_accepted()]
            clients.replace()
            accepted.append(await is_accepted())
    assert accepted == [False, True]


async def tls_trust(folder: Path) -> None:
    """The authorities of the node, and its own certificate, which is replaced without a new key."""
    ours, theirs = authority(), authority("theirs")
    (folder / "trust.pem").write_bytes(ours.pem)
    (folder / "a.toml").write_text(f'{CONFIG}[tls]\ntrust = "trust.pem"\n')
    settings = load(folder / "a.toml", {})
    keys = ring(settings.pki_dir, ours)
    node = NodeIdentity(settings, SettableClock())
    assert not node.is_outdated()
    (folder / "both.pem").write_bytes(ours.pem + theirs.pem)
    replace(folder / "trust.pem", folder / "both.pem")
    assert node.is_outdated()
    node.adopt()
    assert len(node.trust.authorities) == 2
    assert not node.is_outdated()
    (folder / "bad.pem").write_bytes(theirs.pem)
    replace(folder / "trust.pem", folder / "bad.pem")
    assert node.is_outdated()
    with pytest.raises(SemqError):
        node.adopt()
    assert node.status().fault
    assert not node.is_outdated()  # it is not tried again before the files change
    replace(folder / "trust.pem", folder / "both.pem")
    assert not node.is_outdated()  # these are in use
    assert node.status().fault == ""
    add(keys, ours, at=NOW)
    assert node.is_outdated()


#: Setting | a test that replaces its file while a server or a client runs
SWAPS: dict[str, Callable[[Path], Awaitable[None]]] = {
    "http.certificate": http_certificate,
    "http.key": http_key,
    "http.client_authorities": http_client_authorities,
    "server.certificate": server_certificate,
    "server.key": server_certificate,
    "tls.trust": tls_trust,
    "cluster.trust": cluster_trust,
    "telemetry.trust": telemetry_trust,
    "webhooks.*.trust": webhooks_trust,
    "webhooks.*.certificate": webhooks_certificate,
    "webhooks.*.key": webhooks_certificate,
}


@pytest.mark.parametrize("setting", [row.setting for row in TABLE if row.used_from in (CONNECTION, IDENTITY)])
async def test_a_replaced_file_is_used_without_a_restart(setting: str, tmp_path: Path) -> None:
    for name in ("clients", "trusted"):
        (tmp_path / name).mkdir()
    await SWAPS[setting](tmp_path)


def load_node(folder: Path, more: str = "") -> Settings:
    file = folder / "node.toml"
    file.write_text(f'[node]\nkind = "platform"\nid = "hub"\n{more}')
    return load(file, {})


def test_a_path_keeps_the_link_that_is_changed_when_the_file_is_replaced(tmp_path: Path) -> None:
    """Kubernetes and certbot replace files so."""
    (tmp_path / "1").mkdir()
    certificate(tmp_path / "1", "x", None)
    (tmp_path / "now").symlink_to("1")
    settings = load_node(tmp_path, '[http]\ncertificate = "now/x.pem"\nkey = "now/x.pem"\n')
    assert settings.http is not None
    assert settings.http.certificate == tmp_path / "now" / "x.pem"


def test_health_foretells_the_end_of_each_certificate_and_names_what_cannot_be_used(tmp_path: Path) -> None:
    own, other = certificate(tmp_path, "own", None), certificate(tmp_path, "other", None)
    (tmp_path / "broken.pem").write_text("no certificate")
    settings = load_node(
        tmp_path,
        f'[http]\ncertificate = "{own}"\nkey = "{own}"\nclient_authorities = "broken.pem"\n'
        f'[telemetry]\nendpoint = "https://c:4318/v1/traces"\ntrust = "{other}"\n'
        '[extract]\nsalt_file = "none"\n',
    )
    findings = {finding.setting: finding for finding in examine(settings)}
    rows = [finding.status(NOW) for finding in findings.values()]
    faults = {name for name, finding in findings.items() if finding.fault}
    assert faults == {"http.client_authorities", "extract.salt_file"}
    assert {name for name, finding in findings.items() if finding.not_after} == {"http.certificate", "telemetry.trust"}
    check = _credential_files(rows, 14.0)
    assert check.verdict == "failing"
    assert "extract.salt_file: No such file" in check.detail
    usable = [row for row in rows if not row.fault]
    assert _credential_files(usable, 14.0).verdict == "warning"  # they end within two days
    assert "http.certificate" in _credential_files(usable, 14.0).detail
    assert _credential_files(usable, 0.0).verdict == "ok"
    ended = [replace_fields(row, days_left=-1.0) if row.days_left else row for row in usable]
    assert _credential_files(ended, 0.0).verdict == "failing"


def test_a_certificate_without_its_key_cannot_be_used(tmp_path: Path) -> None:
    own, other = certificate(tmp_path, "own", None), certificate(tmp_path, "other", None)
    settings = load_node(tmp_path, f'[http]\ncertificate = "{own}"\nkey = "{other}"\n')
    assert [bool(finding.fault) for finding in examine(settings)] == [True, False]
