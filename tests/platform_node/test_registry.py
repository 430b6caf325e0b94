"""The registry of the hub: limits on renewals, revocations, stores of nodes."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from platform_node.errors import SecondStore, TooManyRenewals
from platform_node.registry import RENEWALS_MAX, Registry, renewals
from semq.amqp.errors import NotAllowed
from semq.clock import SystemClock
from semq.errors import SemqError
from semq.pki.authority import new_request
from semq.pki.certificate import NodeCertificate, read_certificate
from semq.pki.errors import KeyRevoked, Revoked
from semq.pki.keys import new_key
from semq.store.identities import note_store, stores
from semq.umx_t.address import Address
from tests.service.inprocess import InProcess


async def test_a_node_gets_a_limited_number_of_certificates(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    registry: Registry = hub.registry
    assert registry.authority is not None
    node, key = Address(1, "10008"), new_key()
    current: NodeCertificate = registry.authority.issue(key.public_key(), node, SystemClock().wall(), 1.0)
    for _ in range(RENEWALS_MAX):
        await registry.renew(current, new_request(key, node))
    with pytest.raises(TooManyRenewals):
        await registry.renew(current, new_request(key, node))
    assert len(await registry.certificates(node)) == RENEWALS_MAX
    other_certificate = registry.authority.issue(key.public_key(), Address(1, "56001"), datetime.now(UTC), 1.0)
    await registry.renew(other_certificate, new_request(key, other_certificate.node))


async def test_a_certificate_that_was_revoked_at_another_instance_is_not_renewed(inprocess: InProcess) -> None:
    """The other instance has not read the revocation yet."""
    hub = await inprocess.secure_hub()
    other = Registry(hub.control, SystemClock(), hub.settings, hub.registry.authority)
    await other.open()
    node, key = Address(1, "10008"), new_key()
    token, _ = await other.new_token(node, (), 1.0)
    stolen = read_certificate(await other.enrol(node, token, new_request(key, node)))
    assert [issued.serial for issued in await hub.registry.revoke("10008", "stolen")] == [stolen.serial_text]
    other.check(stolen)
    with pytest.raises(Revoked):
        await other.renew(stolen, new_request(new_key(), node))
    with pytest.raises(KeyRevoked):
        await other.renew(stolen, new_request(key, node))
    assert [issued.serial for issued in await other.certificates(node)] == [stolen.serial_text]
    assert await hub.registry.revoke("1.10008", "again") == []


async def test_a_node_that_was_rebound_at_another_instance_may_log_in(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    first, other = hub.registry, Registry(hub.control, SystemClock(), hub.settings, None)
    first.note_store("1.10008", "old", 1, must_not_refuse)
    await first.write_stores()
    await other.open()
    assert await first.rebind("1.10008")
    first.note_store("1.10008", "new", 1, must_not_refuse)
    await first.write_stores()
    with pytest.raises(SecondStore):
        other.note_store("1.10008", "new", 2, must_not_refuse)
    await other.write_stores()
    other.note_store("1.10008", "new", 2, must_not_refuse)
    await other.write_stores()
    await first.rebind("1.10008")
    with pytest.raises(SecondStore):
        other.note_store("1.10008", "newest", 1, must_not_refuse)
    await other.write_stores()
    other.note_store("1.10008", "newest", 1, must_not_refuse)


def test_the_node_gets_the_whole_remedy_after_a_login_with_another_store() -> None:
    error = SecondStore(node="1.10008", known=str(uuid4()), now=str(uuid4()))
    assert NotAllowed(error.advice()).reply_text.endswith(SecondStore.remedy)


async def test_a_login_is_refused_if_another_instance_knows_another_store(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    first, other = hub.registry, Registry(hub.control, SystemClock(), hub.settings, None)
    await other.open()
    first.note_store("1.10008", "own", 1, must_not_refuse)
    await first.write_stores()
    refused: list[SemqError] = []
    other.note_store("1.10008", "copy", 1, refused.append)
    await other.write_stores()
    assert [type(error) for error in refused] == [SecondStore]
    other.note_store("1.10008", "own", 2, must_not_refuse)
    await other.write_stores()
    assert {store.store_uuid for store in await hub.control(stores)} == {"own"}


async def test_all_logins_before_a_write_are_refused_if_another_instance_knows_another_store(
    inprocess: InProcess,
) -> None:
    """The first session may have the node's queues, and would keep them."""
    hub = await inprocess.hub()
    first, other = hub.registry, Registry(hub.control, SystemClock(), hub.settings, None)
    await other.open()
    first.note_store("1.10008", "own", 1, must_not_refuse)
    await first.write_stores()
    at_first, at_second = list[SemqError](), list[SemqError]()
    other.note_store("1.10008", "copy", 1, at_first.append)
    other.note_store("1.10008", "copy", 2, at_second.append)
    await other.write_stores()
    assert [type(error) for error in (*at_first, *at_second)] == [SecondStore, SecondStore]
    other.note_store("1.10008", "own", 2, must_not_refuse)
    await other.write_stores()


async def test_a_login_during_the_write_of_another_is_refused_with_it(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    first, refused = hub.registry, list[str]()
    first.note_store("1.10008", "own", 1, must_not_refuse)
    await first.write_stores()

    async def log_in_meanwhile(query: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        recorded = await hub.control(query, *arguments, **named)
        if query is note_store and not refused:
            other.note_store("1.10008", "copy", 2, lambda error: refused.append("second"))
            with pytest.raises(SecondStore):
                other.note_store("1.10008", "own", 2, must_not_refuse)
        return recorded

    other = Registry(log_in_meanwhile, SystemClock(), hub.settings, None)
    other.note_store("1.10008", "copy", 1, lambda error: refused.append("first"))
    await other.write_stores()
    assert refused == ["second", "first"]
    other.note_store("1.10008", "own", 3, must_not_refuse)
    await other.write_stores()
    assert [store.boot for store in await hub.control(stores)] == [3]


def must_not_refuse(error: SemqError) -> None:
    pytest.fail(str(error))


@pytest.mark.parametrize(("days", "wait_s"), [(90.0, 180.0), (0.001, 4.32)])
def test_the_allowance_of_renewals_grows_with_time_and_suffices_for_short_lifetimes(days: float, wait_s: float) -> None:
    allowance = renewals(days)
    assert all(allowance.take("1.10008", 5.0) for _ in range(RENEWALS_MAX))
    assert not allowance.take("1.10008", 5.0 + wait_s * 0.99)
    assert allowance.take("1.10008", 5.0 + wait_s * 1.01)
