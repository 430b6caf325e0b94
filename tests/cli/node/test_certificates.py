"""Certificates on the command line: enrol, show, renew, revoke; request and install with files alone."""

import json
import re
from pathlib import Path

import pytest

from platform_node.node import HubNode
from semq.config.reach import url_of
from semq.pki.authority import create_authority, key_of_request
from semq.umx_t.address import Address
from tests.cli.command import semq
from tests.cli.command import semq_aside as run
from tests.pki.people import NOW
from tests.service.inprocess import InProcess, linked
from tests.waiting import until


@pytest.fixture
async def hub(inprocess: InProcess) -> HubNode:
    return await inprocess.secure_hub()


async def test_a_node_is_enrolled_and_its_certificate_renewed_and_revoked(inprocess: InProcess, hub: HubNode) -> None:
    at_hub = ("--node", url_of(hub.settings, hub.port))
    settings = inprocess.secure_settings("10008", hub)
    own = str(inprocess.folder / "10008.toml")
    pinned = (await run("cert", "trust", *at_hub)).out.strip()
    assert re.fullmatch("sha256:[0-9a-f]{64}", pinned)
    token = (await run("hub", "nodes", "token", "10008", *at_hub, "--json")).data
    assert f"sha256:{token['fingerprint']}" == pinned
    enrolled = await run("node", "enroll", "--config", own, "--fingerprint", pinned, "--token", "-", "--json",
                         stdin=token["token"].encode() + b"\n")  # fmt: skip
    assert enrolled.data["node"] == "1.10008"
    again = await run("node", "enroll", "--config", own, "--fingerprint", pinned, "--token", token["token"])
    again.fails(1, "SEMQ-5121", "semq hub nodes token")

    node = await inprocess.start_node(settings)
    await linked(node)
    here = ("--node", url_of(settings, node.port))
    shown = (await run("cert", "show", *here, "--json")).data
    assert (shown["node"], shown["state"]) == ("1.10008", "ok")
    assert (await run("cert", "needs-renewal", *here)).status == 0
    renewed = (await run("cert", "renew", *here, "--json")).data
    assert renewed["serial"] != shown["serial"]
    slots = (await run("cert", "list", *here, "--json")).data
    assert [(row["slot"], row["serial"]) for row in slots] == [
        ("active", renewed["serial"]),
        ("previous", enrolled.data["serial"]),
    ]
    await until(lambda: hub.parts.links.links.get("1.10008"))
    listed = (await run("cert", "list", *at_hub, "--json")).data
    assert {row["serial"] for row in listed} >= {shown["serial"], renewed["serial"]}
    assert "10008" in (await run("cert", "list", *at_hub)).out

    revocation = await run("cert", "revoke", "10008", "--why", "moved", *at_hub, "--json")
    assert f"! serial {renewed['serial']} of 1.10008, valid until" in revocation.err
    assert "! 1.10008 is online: its link ends now; stored for it at the hub: 0" in revocation.err
    revoked = json.loads(revocation.out)
    assert set(revoked["revoked"]) >= {shown["serial"], renewed["serial"]}
    await until(lambda: not hub.parts.links.links)
    without_reason = await run("cert", "revoke", "10008", *at_hub)
    assert (without_reason.status, "--why" in without_reason.err) == (2, True)
    (await run("cert", "revoke", "99999", "--why", "x", *at_hub)).fails(1, "SEMQ-1251")
    (await run("cert", "rotate", *here)).fails(1, "SEMQ-5111")
    assert (await run("hub", "nodes", "rebind", "10008", *at_hub)).status == 0


async def test_enrolment_with_a_wrong_fingerprint_is_refused(inprocess: InProcess, hub: HubNode) -> None:
    inprocess.secure_settings("10008", hub)
    own = str(inprocess.folder / "10008.toml")
    result = await run("node", "enroll", "--config", own, "--fingerprint", "ab" * 32, "--token", "x" * 32)
    result.fails(1, "SEMQ-2401")


def test_a_certificate_is_requested_and_installed_with_files_alone(tmp_path: Path) -> None:
    """A certificate of an untrusted authority, or for another node, is refused."""
    trusted, untrusted = create_authority("ours", NOW), create_authority("theirs", NOW)
    (tmp_path / "ca.pem").write_bytes(trusted.pem)
    config = tmp_path / "node.toml"
    config.write_text(
        '[node]\nkind = "local"\nid = "10008"\n[hub]\nurl = "amqps://hub.example.org"\n[tls]\ntrust = "ca.pem"\n'
    )
    request = semq("cert", "request", "--config", str(config)).out
    assert semq("cert", "request", "--config", str(config), "--json").data["node"] == "1.10008"
    key = key_of_request(request.encode())
    file = tmp_path / "certificate.pem"
    file.write_bytes(untrusted.issue(key, Address(1, "10008"), NOW, 90).pem)
    semq("cert", "install", "--config", str(config), str(file)).fails(1, "SEMQ-5102")
    file.write_bytes(trusted.issue(key, Address(1, "56001"), NOW, 90).pem)
    semq("cert", "install", "--config", str(config), str(file)).fails(1, "SEMQ-5104")
    file.write_bytes(trusted.issue(key, Address(1, "10008"), NOW, 90).pem)
    assert semq("cert", "install", "--config", str(config), str(file), "--json").data["slot"] == "active"
    semq("cert", "install", "--config", str(config), str(tmp_path / "none")).fails(1, "SEMQ-2203")
