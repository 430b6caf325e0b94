"""Enrolment, and attempts to misuse a token."""

import asyncio
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from structlog.testing import capture_logs

from local_node.enrolment import HubAddress, enrol
from local_node.errors import NoSuchFingerprint
from platform_node.node import HubNode
from semq.amqp.connection.server import ServerConnection
from semq.amqp.errors import AmqpError
from semq.amqp.limits import ConnectionLimits
from semq.clock import SystemClock
from semq.pki.authority import new_request
from semq.pki.errors import TokenRefused
from semq.pki.keys import new_key
from semq.pki.slots import KeyRing
from semq.pki.tls import server_context
from semq.service.credentials.identity import ring_of
from semq.transport.errors import DialFailed
from semq.umx_t.address import Address
from tests.pki.people import authority, ring, trust
from tests.service.inprocess import InProcess, ask, ask_at, linked
from tests.waiting import until

CLOCK = SystemClock()


@pytest.fixture(scope="module")
async def hub(shared_inprocess: InProcess) -> HubNode:
    return await shared_inprocess.secure_hub()


async def token_for(inprocess: InProcess, hub: HubNode, node: str, **more: object) -> dict[str, str]:
    """Return a token, and the fingerprint of the hub's authority."""
    answer = await ask(await inprocess.client(hub), "nodes.token", {"node": node, **more})
    assert answer["ok"], answer
    result: dict[str, str] = answer["result"]
    return result


async def test_a_node_enrols_and_links_by_its_certificate(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    a, b = await inprocess.secure_local("10008", hub), await inprocess.secure_local("56001", hub)
    await linked(a, b)
    assert hub.parts.links.links.keys() == {"1.10008", "1.56001"}
    for link in hub.parts.links.links.values():
        assert (link.session.peer.tls, link.session.peer.certificate is not None) == ("TLSv1.3", True)
    status = (await ask(await inprocess.client(a), "node.status"))["result"]
    assert status["hub"]["node"] == "2.hub"
    assert (status["certificate"]["node"], status["certificate"]["state"]) == ("1.10008", "ok")
    assert 89 < status["certificate"]["days_left"] <= 90
    listed = (await ask(await inprocess.client(hub), "cert.list"))["result"]
    assert [row["node"] for row in listed] == ["1.56001", "1.10008"]
    accepted = await ask(await inprocess.client(a), "msg.submit", {"target": "56001", "body_base64": "eA=="})
    lk0 = accepted["result"]["lk0"]

    async def is_delivered() -> bool:
        events = (await ask(await inprocess.client(a), "msg.trace", {"id": lk0}))["result"]["events"]
        return any(event["event"] == "DELIVERED" for event in events)

    await until(is_delivered)


async def test_the_list_of_tokens_shows_their_use_and_no_token(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    await inprocess.enrol(inprocess.secure_settings("10008", hub), hub)
    token = (await token_for(inprocess, hub, "56001"))["token"]
    answer = (await ask(await inprocess.client(hub), "nodes.tokens"))["result"]
    listed = (await ask(await inprocess.client(hub), "cert.list"))["result"]
    assert [(row["node"], row["state"]) for row in answer] == [("1.56001", "open"), ("1.10008", "used")]
    assert (answer[0]["used_at"], answer[1]["serial"]) == (None, listed[0]["serial"])
    assert token not in str(answer)


async def test_a_token_can_be_used_once(shared_inprocess: InProcess, hub: HubNode, tmp_path: Path) -> None:
    ticket = await token_for(shared_inprocess, hub, "10008")
    address = HubAddress("127.0.0.1", hub.port)
    ring = KeyRing(tmp_path / "a", Address(1, "10008"))
    certificate = await enrol(ring, address, ticket["fingerprint"], ticket["token"], CLOCK)
    assert ring.identity().certificate == certificate
    certificates = await hub.registry.certificates()
    thief = KeyRing(tmp_path / "thief", Address(1, "10008"))
    with pytest.raises(TokenRefused, match="unknown, used, or too old"):
        await enrol(thief, address, ticket["fingerprint"], ticket["token"], CLOCK)
    assert not thief.is_enrolled
    assert await hub.registry.certificates() == certificates


async def test_a_lost_answer_is_sent_again(shared_inprocess: InProcess, hub: HubNode) -> None:
    ticket = await token_for(shared_inprocess, hub, "10008")
    request = new_request(new_key(), Address(1, "10008"))
    first = await hub.registry.enrol(Address(1, "10008"), ticket["token"], request)
    assert await hub.registry.enrol(Address(1, "10008"), ticket["token"], request) == first


async def test_a_used_token_stays_used_after_a_restart_of_the_hub(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    ticket = await token_for(inprocess, hub, "10008")
    address = HubAddress("127.0.0.1", hub.port)
    first = ring_of(inprocess.secure_settings("10008", hub))
    certificate = await enrol(first, address, ticket["fingerprint"], ticket["token"], CLOCK)
    await hub.stop()
    restarted = HubNode(hub.settings, CLOCK)
    inprocess.stack.push_async_callback(restarted.stop)
    await restarted.start()
    thief = KeyRing(first.folder / "thief", first.node)
    with pytest.raises(TokenRefused, match="unknown, used, or too old"):
        await enrol(thief, HubAddress("127.0.0.1", restarted.port), ticket["fingerprint"], ticket["token"], CLOCK)
    rows = await restarted.registry.certificates(first.node)
    assert [issued.serial for issued in rows] == [certificate.serial_text]


async def test_a_token_is_for_one_node_and_a_limited_time_and_only_the_log_of_the_hub_says_what_is_wrong(
    shared_inprocess: InProcess, hub: HubNode, tmp_path: Path
) -> None:
    address = HubAddress("127.0.0.1", hub.port)
    ticket = await token_for(shared_inprocess, hub, "10008")
    expired_ticket = await token_for(shared_inprocess, hub, "10008", hours=1e-9)
    answers, reasons = set(), []
    for node_id, token in (("56001", ticket["token"]), ("10008", expired_ticket["token"]), ("10008", "0" * 32)):
        ring = KeyRing(tmp_path / node_id, Address(1, node_id))
        with capture_logs() as log_lines, pytest.raises(TokenRefused) as refused:
            await enrol(ring, address, ticket["fingerprint"], token, CLOCK)
        answers.add(refused.value.text)
        assert "`semq hub nodes token ID`" in refused.value.remedy
        reasons += [line["error"] for line in log_lines if line["event"] == "token_refused"]
    assert len(answers) == 1  # the same for all
    assert [reason.partition("(")[0].strip() for reason in reasons] == [
        "SEMQ-5121 The token is for another institution.",
        "SEMQ-5121 The token is too old.",
        "SEMQ-5121 The token is unknown.",
    ]


async def test_the_hub_stores_no_text_of_a_token(shared_inprocess: InProcess, hub: HubNode) -> None:
    ticket = await token_for(shared_inprocess, hub, "10008")
    with psycopg.connect(hub.store.url) as connection:
        rows = connection.execute("SELECT t::text FROM node_token t").fetchall()
    assert rows
    assert ticket["token"] not in str(rows)


async def test_an_impostor_of_the_hub_receives_no_token(
    shared_inprocess: InProcess, hub: HubNode, tmp_path: Path
) -> None:
    ticket = await token_for(shared_inprocess, hub, "10008")
    ring = KeyRing(tmp_path / "a", Address(1, "10008"))
    with pytest.raises(NoSuchFingerprint) as refused:
        await enrol(ring, HubAddress("127.0.0.1", hub.port), authority().fingerprint, ticket["token"], CLOCK)
    assert hub.registry.authority is not None
    assert refused.value.facts["found"] == [f"{hub.registry.authority.fingerprint[:8]}…"]  # too little to be copied
    # The impostor presents the certificate of the true authority without its key.
    received = bytearray()
    true_authority = hub.registry.authority
    assert true_authority is not None
    impostor = await start_impostor(shared_inprocess, true_authority.pem, received)
    with pytest.raises(DialFailed):
        await enrol(ring, HubAddress("127.0.0.1", impostor), ticket["fingerprint"], ticket["token"], CLOCK)
    assert ticket["token"].encode() not in received


async def start_impostor(inprocess: InProcess, pem: bytes, received: bytearray) -> int:
    """Run a server whose greeting has another authority than its certificate; return its port."""
    own_authority = authority()
    tls = server_context(trust(own_authority), ring(inprocess.folder / "impostor", own_authority, "2.hub"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        machine = ServerConnection(
            ConnectionLimits(), server_properties={"authority": pem.decode()}, mechanisms=("PLAIN",)
        )
        machine.start(0.0)
        while data := await reader.read(65536):
            received.extend(data)
            machine.receive(data, 0.0)
            for piece in machine.take_output():
                writer.write(bytes(piece))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    inprocess.stack.callback(server.close)
    port: int = server.sockets[0].getsockname()[1]
    return port


async def test_a_session_by_token_can_only_enrol(shared_inprocess: InProcess, hub: HubNode) -> None:
    ticket = await token_for(shared_inprocess, hub, "10008")
    login = {"user": "enroll/1.10008", "password": ticket["token"]}
    for vhost in ("/", "umx"):
        with pytest.raises(AmqpError):
            await shared_inprocess.client(hub, virtual_host=vhost, **login)
    link = await shared_inprocess.client(hub, virtual_host="enroll", **login)
    assert (await ask_at(link, "semq.enroll", "renew", {"request": ""}))["error"]["code"] == "SEMQ-5101"
    assert (await ask_at(link, "semq.enroll", "who"))["error"]["code"] == "SEMQ-5101"
    assert (await ask_at(link, "semq.enroll", "enroll", {"token": ticket["token"], "request": "x"}))["error"][
        "code"
    ] == ("SEMQ-5120")
    channel = await link.open_channel()
    with pytest.raises(AmqpError, match="ACCESS"):
        await channel.declare_queue("mine")


async def test_tokens_are_made_for_known_institutions_only(shared_inprocess: InProcess, hub: HubNode) -> None:
    admin = await shared_inprocess.client(hub)
    assert (await ask(admin, "nodes.token", {"node": "99999"}))["error"]["code"] == "SEMQ-1201"
    assert (await ask(admin, "nodes.token", {"node": "2.hub"}))["error"]["code"] == "SEMQ-5104"
    for hours in (-1, "inf", "nan"):
        assert (await ask(admin, "nodes.token", {"node": "10008", "hours": hours}))["error"]["code"] == "SEMQ-2102"


async def test_a_hub_without_tls_has_no_authority(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    admin = await inprocess.client(hub)
    for operation in ("nodes.token", "cert.show", "trust.list", "cert.renew"):
        assert (await ask(admin, operation, {"node": "10008"} if operation == "nodes.token" else {}))["error"][
            "code"
        ] == "SEMQ-5122"


async def test_host_names_come_from_the_token_and_are_kept_at_renewal(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    ticket = await token_for(inprocess, hub, "10008", names=["node.example.org"])
    settings = inprocess.secure_settings("10008", hub)
    await enrol(ring_of(settings), HubAddress("127.0.0.1", hub.port), ticket["fingerprint"], ticket["token"], CLOCK)
    node = await inprocess.start_node(settings)
    await linked(node)
    assert node.node_identity is not None
    before = node.node_identity.certificate
    assert before.host_names[0] == "node.example.org"
    assert (await ask(await inprocess.client(node), "cert.renew"))["ok"]
    assert node.node_identity.certificate.host_names == before.host_names
    assert node.node_identity.certificate.serial != before.serial
    assert before.not_after - before.not_before < timedelta(days=91)
