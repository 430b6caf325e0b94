"""The identity of a node: states of its certificate, warnings, rotation, stored keys, and names of peers."""

import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import structlog

from semq.clock import SystemClock
from semq.config import load
from semq.pki.errors import KeyRefused, NoIdentity, Untrusted, WrongName
from semq.service.credentials.identity import NodeIdentity, certificate_of, must_be_hub, ring_of
from semq.transport.peer import PeerInfo
from tests.pki.people import DAY, NOW, add, authority, issued, ring

OURS = authority()
CONFIG = '[node]\nkind = "local"\nid = "10008"\n[hub]\nurl = "amqps://hub"\n'


class SettableClock(SystemClock):
    now = NOW

    def wall(self) -> datetime:
        return self.now

    def random(self) -> float:
        return 0.0


def identity(folder: Path, clock: SettableClock, more: str = "") -> NodeIdentity:
    (folder / "a.toml").write_text(CONFIG + more)
    settings = load(folder / "a.toml", {})
    if not ring_of(settings).is_enrolled:
        ring(settings.pki_dir, OURS)
    return NodeIdentity(settings, clock)


def test_a_certificate_changes_its_state_until_it_expires(tmp_path: Path) -> None:
    clock = SettableClock()
    node_identity = identity(tmp_path, clock)
    states = []
    for days in (0, 59, 61, 77, 91):
        clock.now = NOW + days * DAY
        states.append((node_identity.state, node_identity.is_renewal_due()))
    assert states == [("ok", False), ("ok", False), ("renew", True), ("ending", True), ("expired", True)]
    assert node_identity.status().state == "expired"
    assert node_identity.status().days_left < 0


def test_an_approaching_end_is_logged_at_most_twice_a_day(tmp_path: Path) -> None:
    clock = SettableClock()
    node_identity = identity(tmp_path, clock)
    with structlog.testing.capture_logs() as logs:
        for hours in (0, 24 * 70, 24 * 80, 24 * 80 + 1, 24 * 80 + 13):
            clock.now = NOW + timedelta(hours=hours)
            node_identity.maintain()
    warnings = [line for line in logs if line["event"] == "certificate_ends"]
    assert [line["log_level"] for line in warnings] == ["warning", "warning"]
    assert warnings[0]["days_left"] == 10.0


def test_a_rotation_activates_the_next_certificate(tmp_path: Path) -> None:
    clock = SettableClock()
    node_identity = identity(tmp_path, clock)
    before = node_identity.certificate
    add_next(node_identity)
    clock.now = NOW + DAY
    active = node_identity.rotate()
    assert node_identity.certificate == active != before
    assert [slot.slot for slot in node_identity.slots()] == ["active", "previous"]


def add_next(node_identity: NodeIdentity) -> None:
    certificate = issued(OURS, key=node_identity.ring.next_key())
    node_identity.ring.store_certificate(certificate.pem, node_identity.trust, NOW)


def test_keys_are_deleted_a_configured_time_after_their_retirement(tmp_path: Path) -> None:
    clock = SettableClock()
    node_identity = identity(tmp_path, clock, "[tls]\nkeep_keys_days = 100\n")
    first = node_identity.certificate.key_id
    for days, is_kept in ((0, True), (0, True), (99, True), (101, True), (102, False)):
        clock.now = NOW + days * DAY
        add(node_identity.ring, OURS, at=clock.now)
        node_identity.maintain()
        assert (first in node_identity.ring.identity().keys) is is_kept


def test_a_passphrase_that_is_configured_later_is_used_at_once(tmp_path: Path) -> None:
    clock = SettableClock()
    identity(tmp_path, clock)
    (tmp_path / "phrase").write_text("a long secret\n")
    (tmp_path / "phrase").chmod(0o600)
    node_identity = identity(tmp_path, clock, '[tls]\npassphrase_file = "phrase"\n')
    assert b"ENCRYPTED" in node_identity.ring.key_path(node_identity.certificate.key_id).read_bytes()
    with pytest.raises(KeyRefused):
        identity(tmp_path, clock)


def test_a_node_without_a_certificate_of_its_own_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(CONFIG)
    settings = load(tmp_path / "a.toml", {})
    ring(settings.pki_dir, OURS, "1.56001")
    with pytest.raises(WrongName):
        NodeIdentity(settings, SettableClock())
    (settings.pki_dir / "slots.json").unlink()
    with pytest.raises(NoIdentity):
        NodeIdentity(settings, SettableClock())
    # As before enrolment: the authorities are missing, too.
    shutil.rmtree(settings.pki_dir)
    with pytest.raises(NoIdentity):
        NodeIdentity(settings, SettableClock())


def test_only_a_node_of_type_2_is_accepted_as_hub() -> None:
    def peer(node: str) -> PeerInfo:
        return PeerInfo("192.0.2.1", 1, "someone", issued(OURS, node).der, "TLSv1.3")

    must_be_hub(peer("2.hub"))
    with pytest.raises(WrongName):
        must_be_hub(peer("1.56001"))
    with pytest.raises(Untrusted):
        must_be_hub(PeerInfo("192.0.2.1", 1, tls="TLSv1.3"))
    assert certificate_of(peer("1.56001")).node.id == "56001"
