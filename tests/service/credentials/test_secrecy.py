"""Sealed documents and proofs between nodes with certificates; refusals without them; encrypted bodies in the store."""

import asyncio
import json
import logging
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.cli.main import run
from semq.service.credentials.secrecy import own_keys_of
from tests.pki.people import authority
from tests.service.credentials.test_identity import SettableClock, identity
from tests.service.inprocess import LOCAL_CONFIG, InProcess, ask
from tests.waiting import until

SECRET = "PLANTED 4711 crates of quince brandy"


async def start_nodes(inprocess: InProcess) -> tuple[HubNode, LocalNode, LocalNode]:
    """Start two institutions that have each other's certificates, and their hub."""
    hub = await inprocess.secure_hub()
    a, b = await inprocess.secure_local("10008", hub), await inprocess.secure_local("56001", hub)

    async def is_known() -> bool:
        return bool(a.sealing and a.sealing.keys.knows("1.56001") and b.sealing and b.sealing.keys.knows("1.10008"))

    await until(is_known)
    return hub, a, b


async def deliver_document(inprocess: InProcess, a: LocalNode, **more: Any) -> dict[str, Any]:
    """Deliver a document, and return the result of its submission."""
    admin = await inprocess.client(a)
    document = {"target": "56001", "encrypt": True, "body_base64": b64encode(SECRET.encode()).decode()} | more
    answer = await ask(admin, "msg.submit", document)
    assert answer["ok"], answer

    async def is_delivered() -> bool:
        events = (await ask(admin, "msg.trace", {"id": answer["result"]["lk0"]}))["result"]["events"]
        return any(event["event"] == "DELIVERED" for event in events)

    await until(is_delivered)
    result: dict[str, Any] = answer["result"]
    return result


def everything_in(database: str) -> bytes:
    """Return all rows of all tables as encoded text; bytea columns are in hexadecimal."""
    rows_as_bytes = b""
    with psycopg.connect(database) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            for (row,) in connection.execute(f'SELECT t::text FROM "{table}" t'.encode()).fetchall():
                rows_as_bytes += row.encode()
    return rows_as_bytes


def command_lines() -> str:
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # the process has just ended
            lines.append(file.read_bytes().decode("utf-8", "replace"))
    return " ".join(lines)


async def test_a_sealed_document_is_delivered_and_proved_and_is_in_clear_at_its_receiver_only(
    inprocess: InProcess, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    hub, a, b = await start_nodes(inprocess)
    result = await deliver_document(inprocess, a)

    for node in (hub, a):
        rows = await asyncio.to_thread(everything_in, node.store.url)
        for form in (SECRET.encode(), SECRET.encode().hex().encode(), b"PRIVATE KEY"):
            assert form not in rows
    assert SECRET.encode().hex().encode() in await asyncio.to_thread(everything_in, b.store.url)

    admin = await inprocess.client(a)
    proof = (await ask(admin, "msg.prove", {"id": result["lk0"]}))["result"]["proof"]
    file, document, trust = tmp_path / "proof.json", tmp_path / "document", tmp_path / "trust.pem"
    file.write_text(proof)
    document.write_text(SECRET)
    assert a.node_identity is not None
    trust.write_bytes(a.node_identity.trust.pem)

    def verify(*arguments: str) -> int:
        return run(["verify", str(file), *arguments])

    assert verify("--document", str(document), "--trust", str(trust), "--json") == 0
    printed = capfd.readouterr().out
    shown = json.loads(printed[printed.index('{"proved"') :])
    assert shown["proved"]
    assert shown["sealed"]
    assert shown["lk0"] == result["lk0"]
    assert verify("--trust", str(trust)) == verify("--any-authority") == 0
    assert verify() == 1
    document.write_text(SECRET + ".")
    assert verify("--document", str(document), "--trust", str(trust)) == 1
    file.write_text(proof.replace('"RECV"', '"SETTLED"'))
    assert verify("--trust", str(trust)) == 1
    file.write_text(proof.replace("1.56001", "1.88001"))
    assert verify("--trust", str(trust)) == 1

    checked = (await ask(admin, "ledger.verify"))["result"]
    assert checked["lines"] > 0
    assert (await ask(admin, "ledger.verify", {"head": checked["head"]}))["ok"]
    with psycopg.connect(a.store.url) as connection:
        connection.execute("UPDATE semq_ledger SET target = '1.88001' WHERE event = 1")
    changed = await ask(admin, "ledger.verify")
    assert changed["error"]["code"] == "SEMQ-5212"
    assert (await ask(await inprocess.client(hub), "ledger.verify"))["ok"]

    captured = capfd.readouterr()
    assert "uplink_up" in caplog.text
    for text in (printed, captured.out, captured.err, caplog.text, command_lines(), json.dumps(changed)):
        assert SECRET not in text
        assert "PRIVATE KEY" not in text


def test_a_file_of_an_older_semq_is_sent_without_its_private_key_and_texts(tmp_path: Path) -> None:
    node_identity, issuer = identity(tmp_path, SettableClock()), authority("other").pem
    certificate, ring = node_identity.certificate, node_identity.ring
    key = ring.key(certificate.key_id).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    bundle = "subject=O = Müller GmbH\n".encode() + key + certificate.pem + issuer + key
    ring.certificate_path(certificate.key_id).write_bytes(bundle)
    assert own_keys_of(node_identity, SettableClock()).certificates == ((certificate.pem + issuer).decode(),)


async def test_without_certificates_no_message_can_be_proved_or_sealed(inprocess: InProcess) -> None:
    _, a = await inprocess.pair()
    admin = await inprocess.client(a)
    document = {"target": "56001", "body_base64": b64encode(b"x").decode()}
    lk0 = (await ask(admin, "msg.submit", document))["result"]["lk0"]
    assert (await ask(admin, "msg.prove", {"id": lk0}))["error"]["code"] == "SEMQ-2230"
    sealed = await ask(admin, "msg.submit", document | {"encrypt": True})
    assert sealed["error"]["code"] == "SEMQ-5207"


async def test_stored_certificates_are_used_when_the_hub_is_unavailable(inprocess: InProcess) -> None:
    hub, a, _ = await start_nodes(inprocess)

    async def is_kept() -> bool:
        with psycopg.connect(a.store.url) as connection:
            rows = connection.execute("SELECT node, cardinality(pems) FROM semq_certificate").fetchall()
        return bool(rows and rows[0][0] == "1.56001" and rows[0][1])

    await until(is_kept)
    await a.stop()
    await hub.stop()
    restarted = await inprocess.start_node(a.settings)
    admin = await inprocess.client(restarted)
    document = {"target": "56001", "encrypt": True, "body_base64": b64encode(SECRET.encode()).decode()}
    assert (await ask(admin, "msg.submit", document))["ok"]
    assert SECRET.encode().hex().encode() not in await asyncio.to_thread(everything_in, restarted.store.url)


async def test_a_renewed_certificate_is_sent_to_partners_and_a_revoked_one_is_not_used(
    inprocess: InProcess,
) -> None:
    hub, a, b = await start_nodes(inprocess)
    assert a.sealing is not None
    before = a.sealing.keys.receiver("1.56001")
    assert (await ask(await inprocess.client(b), "cert.renew"))["ok"]

    async def is_reported() -> bool:
        assert a.sealing is not None
        now = a.sealing.keys.receiver("1.56001")
        return now is not None and now != before

    await until(is_reported)
    await deliver_document(inprocess, a)
    await hub.registry.revoke("56001", "test")
    hub.apply_revocations()

    async def is_gone() -> bool:
        return a.sealing is not None and a.sealing.keys.receiver("1.56001") is None

    await until(is_gone)
    document = {"target": "56001", "encrypt": True, "body_base64": b64encode(b"x").decode()}
    assert (await ask(await inprocess.client(a), "msg.submit", document))["error"]["code"] == "SEMQ-5207"


async def test_bodies_are_stored_encrypted_if_a_master_key_is_configured(inprocess: InProcess, tmp_path: Path) -> None:
    hub = await inprocess.hub()
    key = tmp_path / "bodies.key"
    key.write_text("a master key of some length\n")
    key.chmod(0o600)
    text = LOCAL_CONFIG.format(name="10008", hub=hub.port) + f'[secrecy]\nbodies_key_file = "{key}"\n'
    a = await inprocess.start_node(inprocess.settings("10008", text))
    admin = await inprocess.client(a)
    document = {"target": "10008", "body_base64": b64encode(SECRET.encode()).decode()}
    answer = await ask(admin, "msg.submit", document)
    assert answer["ok"], answer

    async def is_there() -> bool:
        rows = (await ask(admin, "msg.list", {"side": "inbound"}))["result"]["rows"]
        return bool(rows)

    await until(is_there)
    reply = (await ask(admin, "msg.body", {"id": answer["result"]["lk0"]}))["result"]
    assert reply["body_base64"] == document["body_base64"]
    assert SECRET.encode().hex().encode() not in await asyncio.to_thread(everything_in, a.store.url)
