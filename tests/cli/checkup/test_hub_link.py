"""``semq doctor``: the way to the hub and to partners, and the certificates for it."""

import asyncio
from pathlib import Path

import pytest

from semq.broker.server import AmqpServer
from semq.cli.checkup import direct_links, hub_link, identity
from semq.cli.checkup.finding import FAILING, OK, WARNING, Finding
from semq.config.settings import Settings
from semq.installation.configuration import free_ports
from semq.service.credentials.identity import ring_of
from semq.store.postgres.errors import StoreUnavailable
from tests.cli.checkup.test_doctor import LOCAL, settings_of, verdicts
from tests.local_node.link.test_direct import Hubless
from tests.pki.people import authority
from tests.service.inprocess import InProcess, linked


async def finding_of_hub_link(settings: Settings) -> Finding:
    [finding] = [finding async for finding in hub_link.check(settings)]
    return finding


async def test_a_node_with_a_certificate_can_log_in_and_keeps_its_link(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    node = await inprocess.secure_local("10008", hub)
    await linked(node)
    assert verdicts(identity.check(node.settings)) == {"certificate": OK}
    found = await finding_of_hub_link(node.settings)
    assert (found.verdict, "TLSv1.3" in found.detail) == (OK, True)
    link = node.parts.hub.link
    assert verdicts(identity.check(hub.settings)) == {"certificate": OK}
    assert node.parts.hub.link is link, "the check must not end the link of the node"


async def test_missing_revoked_and_foreign_certificates_fail(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    assert verdicts(identity.check(settings)) == {"certificate": FAILING}
    assert (await finding_of_hub_link(settings)).verdict == FAILING
    await inprocess.enrol(settings, hub)
    assert (await finding_of_hub_link(settings)).verdict == OK
    await hub.registry.revoke("10008", "a bad day")
    refused = await finding_of_hub_link(settings)
    assert refused.verdict == FAILING
    assert "refuses the login of 1.10008" in refused.detail
    assert "has revoked the certificate" in refused.advice
    ring = ring_of(settings)
    ring.trust_path.write_bytes(authority("another").pem)
    assert verdicts(identity.check(settings))["certificate"] == FAILING
    assert "authority" in (await finding_of_hub_link(settings)).advice


@pytest.mark.parametrize("obstacle", ["stop", "store"])
async def test_a_peer_that_cannot_check_the_login_now_is_not_taken_for_another_program(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    hubless = Hubless(inprocess)
    partner = await hubless.start_node("56001", '[direct."10008"]\n')
    node = await hubless.start_node("10008", f'[direct."56001"]\nurls = ["amqps://127.0.0.1:{partner.port}"]\n')
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("88001", hub)
    await inprocess.enrol(settings, hub)

    def hinder(server: AmqpServer) -> None:
        async def authenticate(*_: object) -> str | None:
            if obstacle == "store":
                raise StoreUnavailable
            for session in list(server.sessions):
                session.force_close("the node stops")
            return None

        monkeypatch.setattr(server.authenticator, "authenticate", authenticate)

    hinder(hub.server)
    found = await finding_of_hub_link(settings)
    assert (found.verdict, "The hub stops, or could not check the login" in found.advice) == (FAILING, True)
    hinder(partner.server)
    [found] = [finding async for finding in direct_links.check(node.settings)]
    assert (found.verdict, "node stops, or could not check the login" in found.advice) == (WARNING, True)


async def test_the_advice_names_the_obstacle_on_the_way_to_the_hub(tmp_path: Path) -> None:
    text = LOCAL + 'password = "x"\n'
    [port] = free_ports(1)
    refused = await finding_of_hub_link(settings_of(tmp_path, text.format(url=f"amqp://127.0.0.1:{port}")))
    assert "No program listens" in refused.advice
    named = text.format(url="amqp://no-such-host.invalid:5670") + "allow_plain = true\n"
    assert "cannot be resolved" in (await finding_of_hub_link(settings_of(tmp_path, named))).advice

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        found = await finding_of_hub_link(settings_of(tmp_path, text.format(url=f"amqp://127.0.0.1:{port}")))
    assert found.verdict == FAILING
    assert found.advice
