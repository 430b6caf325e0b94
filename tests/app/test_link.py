"""Addresses of nodes, and the errors of a client whose node cannot be reached."""

import asyncio
import ssl
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from semq.app import BadUrl, Client, LoginRefused, NodeUnreachable, link
from semq.app.link import read_url
from semq.installation.configuration import free_ports
from semq.pki.authority import Authority
from semq.pki.slots import KeyRing
from semq.pki.tls import server_context
from semq.transport.client import ClientLink
from semq.transport.dialer import dial
from semq.umx_t.address import Address
from tests.app.network import Network
from tests.pki.people import DAY, NOW, authority, trust
from tests.transport.pair import pair
from tests.waiting import until


def test_an_address_is_read() -> None:
    config = read_url("amqp://an%40app:a%2Fb@hub.example:5680/a%20host")
    assert (config.host, config.port, config.virtual_host) == ("hub.example", 5680, "a host")
    assert (config.user, config.password) == ("an@app", "a/b")
    assert config.tls is None
    assert "a/b" not in repr(config)


def test_omitted_parts_have_defaults() -> None:
    config = read_url("amqp://localhost")
    assert (config.port, config.virtual_host, config.user, config.password) == (5672, "/", "guest", "guest")
    assert read_url("amqps://localhost").port == 5671
    assert read_url("amqps://localhost").tls is not None


@pytest.mark.parametrize("url", ["", "http://host", "amqp://", "amqp://host:port", "amqp://host:70000", "host:5672"])
def test_a_bad_address_is_refused_and_shows_no_password(url: str) -> None:
    with pytest.raises(BadUrl) as caught:
        Client(url.replace("//", "//user:hidden@"))
    assert "hidden" not in caught.value.advice()


@pytest.mark.parametrize(
    "url", ["amqp://app:hidden/x@host", "amqp://app:hidden?x@host", "amqp://app:hidden\u2100@host"]
)
def test_a_password_with_characters_that_divide_addresses_is_not_shown(url: str) -> None:
    with pytest.raises(BadUrl) as caught:
        read_url(url)
    assert "hidden" not in caught.value.advice()


@pytest.mark.parametrize("query", ["?cafile=/nowhere.pem", "?verify=no"])
def test_tls_options_are_checked(query: str) -> None:
    with pytest.raises(BadUrl) as caught:
        read_url(f"amqps://app:secret@host{query}")
    assert "secret" not in caught.value.advice()


async def test_a_closed_port_is_reported() -> None:
    [port] = free_ports(1)
    with pytest.raises(NodeUnreachable) as caught:
        await Client(f"amqp://app:secret@127.0.0.1:{port}").connect(timeout_s=0.3)
    assert caught.value.facts["address"] == f"127.0.0.1:{port}"


def secured(folder: Path, by: Authority, host: str = "127.0.0.1", at: datetime = NOW) -> ssl.SSLContext:
    """Return the context of a node's port. Its certificate names ``host``, and is valid for ten days."""
    keys = KeyRing(folder, Address(1, "10008"))
    certificate = by.issue(keys.next_key().public_key(), keys.node, at, 10, (host,))
    keys.store_certificate(certificate.pem, trust(by), at)
    keys.rotate(at)
    return server_context(trust(by), keys)


@pytest.mark.parametrize(
    ("scheme", "authority_file", "host", "at", "remedy"),
    [
        ("amqps", "", "127.0.0.1", NOW, "?cafile=FILE"),
        ("amqps", "other.pem", "127.0.0.1", NOW, "?cafile=FILE"),
        ("amqps", "ours.pem", "127.0.0.1", NOW - 20 * DAY, "semq cert renew"),
        ("amqps", "ours.pem", "elsewhere.example", NOW, "--name HOST"),
        ("amqps", "ours.pem", None, NOW, "write amqp:// instead"),
        ("amqp", "", "127.0.0.1", NOW, "If this is a TLS port (amqp.tls), write `amqps://"),
    ],
)
async def test_the_remedy_fits_the_reason_why_no_connection_by_tls_is_made(
    tmp_path: Path, scheme: str, authority_file: str, host: str | None, at: datetime, remedy: str
) -> None:
    """``host``: None for a port without TLS."""
    ours = authority()
    for name, whose in (("ours.pem", ours), ("other.pem", authority("other"))):
        (tmp_path / name).write_bytes(trust(whose).pem)
    tls = secured(tmp_path / "keys", ours, host, at) if host else None
    query = f"?cafile={tmp_path / authority_file}" if authority_file else ""
    async with pair(tls=tls) as endpoints:
        client = Client(f"{scheme}://guest:guest@127.0.0.1:{endpoints.server.port}{query}")
        is_lasting = "If this is a TLS port" not in remedy  # then one attempt is enough
        with pytest.raises(NodeUnreachable) as caught:
            await client.connect(timeout_s=600 if is_lasting else 0.5)
        assert remedy in caught.value.remedy


async def test_a_connect_without_repetition_fails_at_once() -> None:
    [port] = free_ports(1)
    with pytest.raises(NodeUnreachable):
        await Client(f"amqp://app:secret@127.0.0.1:{port}").connect(timeout_s=600, once=True)


async def test_another_program_at_the_port_is_reported_as_unreachable_node() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NodeUnreachable):
            await Client(f"amqp://app:secret@127.0.0.1:{port}").connect(timeout_s=0.5)


async def test_a_second_connect_waits_for_the_first_only_until_its_own_deadline() -> None:
    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(stay_silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        client = Client(f"amqp://app:secret@127.0.0.1:{port}")
        patient = asyncio.create_task(client.connect(timeout_s=600))
        await asyncio.sleep(0)
        with pytest.raises(NodeUnreachable, match="still connecting"):
            await client.connect(timeout_s=0.1)
        assert not patient.done()
        patient.cancel()
        await asyncio.gather(patient, return_exceptions=True)


async def test_a_client_closed_while_it_connects_leaves_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    connected, closed = asyncio.Event(), asyncio.Event()

    async def dial_slowly(*arguments: Any) -> ClientLink:
        client = await dial(*arguments)
        connected.set()
        await closed.wait()
        return client

    monkeypatch.setattr(link, "dial", dial_slowly)
    async with pair() as endpoints:
        client = Client(f"amqp://guest:guest@127.0.0.1:{endpoints.server.port}")
        connecting = asyncio.create_task(client.connect())
        await connected.wait()
        await client.close()
        closed.set()
        with pytest.raises(NodeUnreachable, match="closed"):
            await connecting
        await until(lambda: not endpoints.server.sessions)


@pytest.mark.parametrize("wrong", ["app:wrong@{}", "nobody:secret@{}", "app:secret@{}/nowhere"])
async def test_a_login_with_a_wrong_user_password_or_virtual_host_is_refused(network: Network, wrong: str) -> None:
    url = "amqp://" + wrong.format(f"127.0.0.1:{network.sender.place.port}")
    with pytest.raises(LoginRefused) as caught:
        await Client(url).connect(timeout_s=30)
    assert caught.value.code == "SEMQ-1302"


async def test_a_closed_client_dials_no_more(network: Network) -> None:
    client = Client(network.sender.url)
    await client.connect()
    await client.close()
    with pytest.raises(NodeUnreachable):
        await client.request("node.status", timeout_s=1)
