"""Change of the authority of a running network: both are trusted for a time, then only the new one."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.clock import SystemClock
from semq.pki.authority import Authority
from semq.pki.tls import client_context
from semq.service.credentials.identity import ring_of
from semq.transport.dialer import DialConfig, dial
from semq.transport.errors import DialFailed
from semq.transport.turn import Turn
from tests.pki.people import LOCAL, NOW, authority, trust
from tests.pki.people import ring as ring_with
from tests.service.credentials.test_secrecy import deliver_document, start_nodes
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until

NEW = authority("new")
CLOCK = SystemClock()


async def change_authority(inprocess: InProcess, node: LocalNode | HubNode, to: Authority) -> None:
    """Make a node use a certificate of another authority."""
    ring = ring_of(node.settings)
    certificate = to.issue(ring.next_key().public_key(), ring.node, NOW, 30, LOCAL)
    ring.store_certificate(certificate.pem, trust(to), CLOCK.wall())
    answer = await ask(await inprocess.client(node), "cert.rotate")
    assert answer["ok"], answer


async def test_two_authorities_overlap_and_documents_flow_all_the_time(inprocess: InProcess, tmp_path: Path) -> None:
    hub, a, b = await start_nodes(inprocess)
    nodes = (hub, a, b)
    assert hub.node_identity is not None
    (old,) = hub.node_identity.trust.fingerprints
    for node in nodes:
        answer = await ask(await inprocess.client(node), "trust.add", {"pem": NEW.pem.decode()})
        assert answer["result"]["fingerprints"] == [old, NEW.fingerprint]
        await linked(a, b)
        await deliver_document(inprocess, a)
    for node in (b, hub, a):
        await change_authority(inprocess, node, NEW)
        await linked(a, b)
        await until(lambda: a.sealing is not None and a.sealing.keys.receiver("1.56001") is not None)
        await deliver_document(inprocess, a)
        refused = await ask(await inprocess.client(node), "trust.remove", {"fingerprint": NEW.fingerprint})
        assert refused["error"]["code"] == "SEMQ-5113"
    for node in nodes:
        answer = await ask(await inprocess.client(node), "trust.remove", {"fingerprint": f"SHA256:{old.upper()}"})
        assert answer["result"]["fingerprints"] == [NEW.fingerprint]
        await until(lambda: a.sealing is not None and a.sealing.keys.receiver("1.56001") is not None)
        await linked(a, b)
        await deliver_document(inprocess, a)
    assert hub.registry.authority is not None
    # The authority of the hub may be younger than NOW.
    now = datetime.now(UTC).replace(microsecond=0)
    late = ring_with(tmp_path / "late", hub.registry.authority, "1.88001", at=now)
    link = DialConfig("127.0.0.1", hub.port, "umx", "1.88001", tls=client_context(trust(NEW), late))
    with pytest.raises(DialFailed):
        await dial(link, CLOCK, Turn())
    await a.stop()
    restarted = await inprocess.start_node(a.settings)
    assert restarted.node_identity is not None
    assert restarted.node_identity.trust.fingerprints == [NEW.fingerprint]


@pytest.mark.parametrize(
    ("operation", "value", "code", "remedy"),
    [
        ("trust.add", "nonsense", "SEMQ-5112", "tls.trust"),
        ("trust.add", "node", "SEMQ-5112", "tls.trust"),
        ("trust.remove", "00" * 32, "SEMQ-5113", "`semq cert trust` lists"),
        ("trust.remove", "own", "SEMQ-5113", "First add another authority"),
    ],
)
async def test_changes_of_trust_that_are_not_possible_are_refused(
    inprocess: InProcess, operation: str, value: str, code: str, remedy: str
) -> None:
    hub = await inprocess.secure_hub()
    assert hub.node_identity is not None
    before = hub.node_identity.trust.fingerprints
    values = {"own": before[0], "node": hub.node_identity.certificate.pem.decode()}
    name = {"trust.add": "pem", "trust.remove": "fingerprint"}[operation]
    answer = await ask(await inprocess.client(hub), operation, {name: values.get(value, value)})
    assert answer["error"]["code"] == code
    assert remedy in answer["error"]["remedy"]
    assert hub.node_identity.trust.fingerprints == before
