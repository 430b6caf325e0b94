"""Limits on connections, in total and by address; a port in use; the stop of a listener; a login by certificate."""

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from semq.broker.services import CONFIRMED
from semq.broker.users import Permissions, User
from semq.transport.errors import DialFailed
from semq.transport.listener import Listener
from tests.broker.test_services import RegisteredServices, confirming_channel
from tests.transport.pair import header, pair
from tests.waiting import until


async def test_the_number_of_connections_is_limited() -> None:
    async with pair(connections_max=2) as endpoints:
        first = await endpoints.dial()
        await endpoints.dial()
        with pytest.raises(DialFailed):
            await endpoints.dial()
        assert endpoints.server.figures().connections_refused == 1
        await first.close()
        await endpoints.dial()
        assert endpoints.server.figures().connections == 2


async def test_the_number_of_connections_from_one_address_is_limited() -> None:
    async with pair(connections_per_address_max=1) as endpoints:
        first = await endpoints.dial()
        with pytest.raises(DialFailed):
            await endpoints.dial()
        assert len(endpoints.server.sessions) == 1
        await first.close()
        await endpoints.dial()


@pytest.mark.parametrize("is_tls", [False, True])
async def test_silent_connections_of_some_addresses_do_not_keep_others_out(is_tls: bool, tmp_path: Path) -> None:
    """Two addresses may open more connections than the port has places for."""
    tls, client = contexts(tmp_path) if is_tls else (None, None)
    async with pair(connections_max=6, connections_per_address_max=4, tls=tls, host="0.0.0.0") as endpoints:
        listener = endpoints.server.listener
        assert isinstance(listener, Listener)
        login = {"tls": client, "server_hostname": "127.0.0.1"} if is_tls else {}
        first = await endpoints.dial(**login)
        silent = [
            socket.create_connection(("127.0.0.1", endpoints.server.port), source_address=(f"127.0.0.{n}", 0))
            for n in (2, 3)
            for _ in range(4)
        ]
        await until(lambda: len(listener.places) == 6 and listener.places.displaced == 3)
        second = await endpoints.dial(**login)
        assert first.is_open
        assert second.is_open
        assert (listener.places.displaced, listener.refused) == (4, 0)
        for connection in silent:
            connection.close()


async def test_a_port_in_use_is_reported_at_the_start() -> None:
    async with pair() as endpoints:
        with pytest.raises(OSError, match="address already in use"):
            async with pair(port=endpoints.server.port):
                pass


async def test_stopping_waits_for_answers_and_accepts_no_connection() -> None:
    async with pair() as endpoints:
        links = [await endpoints.dial() for _ in range(3)]
        stopping = asyncio.ensure_future(endpoints.server.stop(10.0))
        errors = [await link.wait_closed() for link in links]
        await stopping
        assert [error.reply_code for error in errors if error is not None and hasattr(error, "reply_code")] == [320] * 3
        with pytest.raises(DialFailed):
            await endpoints.dial()


def certificate(folder: Path, name: str, issuer: "tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None") -> Path:
    """Return the path of a new file with a key and its certificate, which the issuer signs (None: the key itself)."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = issuer[1] if issuer else key
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    plain = serialization.NoEncryption()
    data = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(data + signed.public_bytes(serialization.Encoding.PEM))
    return path


def contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return contexts for the server and for a client, with one authority for both."""
    authority = certificate(folder, "authority", None)
    data = authority.read_bytes()
    key = serialization.load_pem_private_key(data, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    issuer = (x509.load_pem_x509_certificate(data), key)
    tls_contexts = []
    for purpose, name in ((ssl.Purpose.CLIENT_AUTH, "server"), (ssl.Purpose.SERVER_AUTH, "node.10008")):
        context = ssl.create_default_context(purpose, cafile=str(authority))
        context.load_cert_chain(certificate(folder, name, issuer))
        context.verify_mode = ssl.CERT_REQUIRED
        tls_contexts.append(context)
    return tls_contexts[0], tls_contexts[1]


async def test_a_client_may_log_in_by_certificate(tmp_path: Path) -> None:
    server, client = contexts(tmp_path)
    async with pair(tls=server) as endpoints:
        table = endpoints.server.authenticator
        table.users["node.10008"] = User("node.10008", None, {"/": Permissions()})  # type: ignore[attr-defined]
        link = await endpoints.dial(tls=client, server_hostname="127.0.0.1", user="", password=None)
        assert link.machine.is_open
        (session,) = endpoints.server.sessions
        assert (session.info.user, session.info.peer.common_name) == ("node.10008", "node.10008")
        with pytest.raises(DialFailed):
            await endpoints.dial(connect_s=0.5)


async def test_a_connection_whose_close_waits_for_outcomes_keeps_its_place() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare, connections_max=1) as endpoints:
        channel = await confirming_channel(endpoints)
        channel.publish("door", "held", header(b"x"), b"x")
        await until(lambda: services.exchange.waiting)
        closing = asyncio.ensure_future(endpoints.links[0].close())
        (session,) = endpoints.server.sessions
        await until(lambda: not session.machine.is_open)
        with pytest.raises(DialFailed):
            await endpoints.dial(connect_s=0.5)
        assert session in endpoints.server.sessions
        services.exchange.waiting.pop()(CONFIRMED)
        await closing
