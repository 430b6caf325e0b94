"""The change of the hub's authority."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from local_node.node import LocalNode
from platform_node.authority_roll import AuthorityRoll, RollStatus
from platform_node.authority_state import Phase, read_roll
from platform_node.node import HubNode
from platform_node.registry import prepare_authority
from semq.clock import SystemClock
from semq.pki.succession import is_issued_by
from semq.service.credentials.identity import NodeIdentity
from semq.store import files
from semq.transport.client import ClientLink
from tests.platform_node.test_cluster import hubs_of, settle_homes
from tests.service.inprocess import InProcess, ask, linked, uplink_of
from tests.waiting import until


@pytest.fixture(autouse=True)
def short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform_node.node.ROLL_S", 0.1)


async def status_of(hub: HubNode) -> RollStatus:
    assert hub.authority_roll is not None
    return await hub.authority_roll.status()


async def until_done(hub: HubNode) -> None:
    async def is_done() -> bool:
        return bool((await status_of(hub)).phase == "done")

    await until(is_done)


def uses_new_authority(node: LocalNode, hub: HubNode) -> bool:
    """Whether the hub's present authority has signed the node's certificate, and the node trusts no other."""
    authority = hub.registry.authority
    assert node.node_identity is not None
    assert authority is not None
    return is_issued_by(
        node.node_identity.certificate, authority.certificate
    ) and node.node_identity.trust.fingerprints == [authority.fingerprint]


async def submit(link: ClientLink, target: str, name: str, count: int = 5) -> list[str]:
    documents = [{"target": target, "body_base64": "eA==", "token": f"{target}-{name}-{n}"} for n in range(count)]
    return [(await ask(link, "msg.submit", document))["result"]["lk0"] for document in documents]


async def until_ended(link: ClientLink, sent: list[str]) -> None:
    async def have_ended() -> bool:
        rows = (await ask(link, "msg.list"))["result"]["rows"]
        return not any(row["lk0"] in sent and row["outcome"] is None for row in rows)

    await until(have_ended)


async def test_a_network_in_operation_changes_its_authority(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    a, b = await inprocess.secure_local("10008", hub), await inprocess.secure_local("56001", hub)
    await linked(a, b)
    operator, app = await inprocess.client(hub), await inprocess.client(a)
    before = (await ask(operator, "ca.show"))["result"]
    assert (before["phase"], before["nodes"]) == ("none", [])
    left = await ask(operator, "ca.leave", {"nodes": ["10008"]})
    assert left["error"]["code"] == "SEMQ-1256"  # no change is in progress
    sent = await submit(app, "56001", "before")
    answer = (await ask(operator, "ca.roll"))["result"]
    assert answer["began"]
    assert answer["former"] == before["authority"]
    sent += await submit(app, "56001", "during")
    await until_done(hub)
    await until(lambda: uses_new_authority(a, hub) and uses_new_authority(b, hub))
    after = (await ask(await inprocess.client(hub), "ca.show"))["result"]
    assert after["authority"] == answer["new"] != before["authority"]
    assert {row["state"] for row in after["nodes"]} == {"trusts the new one only"}
    assert hub.node_identity is not None
    assert hub.node_identity.trust.fingerprints == [answer["new"]]
    assert not (hub.settings.pki_dir / "authority.key").exists()
    await linked(a, b)
    await until_ended(app, sent + await submit(app, "56001", "after"))
    # Also at the next start the hub signs with the new authority.
    after_start = prepare_authority(hub.settings, hub.clock)
    assert after_start is not None
    assert after_start.fingerprint == answer["new"]


async def test_the_change_waits_for_an_offline_node_until_it_is_left_behind(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    a, b = await inprocess.secure_local("10008", hub), await inprocess.secure_local("56001", hub)
    await linked(a, b)
    operator, app = await inprocess.client(hub), await inprocess.client(a)
    await b.stop()
    sent = await submit(app, "56001", "stored")
    await until(lambda: hub.engine.custody.rows_by_target.get("1.56001", 0) == 5)
    await ask(operator, "ca.roll")

    async def waits_for_b_only() -> bool:
        result = await status_of(hub)
        return list(result.waiting_for) == ["1.56001"] and "both" in {r.node: r.state for r in result.nodes}["1.10008"]

    await until(waits_for_b_only)
    assert hub.authority_roll is not None
    assert hub.authority_roll.state is not None
    assert hub.authority_roll.state.phase is Phase.BELIEVE
    assert (await ask(operator, "ca.leave", {"nodes": ["99999"]}))["error"]["code"] == "SEMQ-1201"
    after_leave = (await ask(operator, "ca.leave", {"nodes": ["56001"]}))["result"]
    assert after_leave["waiting_for"] in ([], ["1.10008"])
    await until_done(hub)
    b = LocalNode(b.settings, SystemClock())
    inprocess.stack.push_async_callback(b.stop)
    await b.start()
    await until(lambda: "SEMQ-4913" in uplink_of(b).last_error)
    assert "enrol again" in next(check.detail for check in await b.checks() if check.name == "link")
    own = await submit(await inprocess.client(b), "10008", "kept")
    await inprocess.enrol(b.settings, hub)
    await b._maintain_certificate()  # as the job of the node does
    await linked(a, b)
    await until_ended(app, sent)
    await until_ended(await inprocess.client(b), own)
    assert uses_new_authority(b, hub)


@asynccontextmanager
async def two_instances(
    inprocess: InProcess, folder: Path
) -> AsyncIterator[tuple[HubNode, HubNode, LocalNode, LocalNode]]:
    """Run two instances that share their keys, each with an institution."""
    async with hubs_of(inprocess) as hubs:
        hubs.keys = folder / "keys"
        first, second = await hubs.instance(1), await hubs.instance(2)
        await settle_homes(first, second)
        a, b = await inprocess.secure_local("10008", first), await inprocess.secure_local("56001", second)
        await linked(a, b)
        yield first, second, a, b


async def test_all_instances_of_a_hub_share_certificates_and_change_their_authority_together(
    inprocess: InProcess, tmp_path: Path
) -> None:
    async with two_instances(inprocess, tmp_path) as (first, second, a, b):
        assert first.node_identity is not None
        assert second.node_identity is not None
        first.renew_own()
        second._maintain_certificate()  # as the job of the node does
        assert second.node_identity.certificate.serial_text == first.node_identity.certificate.serial_text
        app = await inprocess.client(a)
        sent = await submit(app, "56001", "before")
        roll, second.authority_roll = second.authority_roll, None  # its job does nothing now
        answer = (await ask(await inprocess.client(first), "ca.roll"))["result"]
        sent += await submit(app, "56001", "during")

        async def waits_for_second() -> bool:
            result = await status_of(first)
            return (list(result.waiting_for_stores), list(result.waiting_for)) == (["2.2"], ["1.56001"])

        await until(waits_for_second)
        assert (await status_of(first)).phase == "believe"
        second.authority_roll = roll
        await until_done(first)
        await until(lambda: uses_new_authority(a, first) and uses_new_authority(b, second))
        for hub in (first, second):
            assert hub.node_identity is not None
            assert hub.registry.authority is not None
            assert hub.registry.authority.fingerprint == answer["new"]
            await until(lambda identity=hub.node_identity: identity.trust.fingerprints == [answer["new"]])  # type: ignore[misc]
            assert is_issued_by(hub.node_identity.certificate, hub.registry.authority.certificate)
        states = {row.state for row in (await status_of(second)).nodes}
        assert states == {"trusts the new one only"}
        await linked(a, b)
        await until_ended(app, sent + await submit(app, "56001", "after"))


class ProcessEnded(Exception):
    """The end of the simulated process."""


async def test_a_change_continues_after_the_hub_has_ended_at_any_write(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run of the process ends one write later than the run before."""
    monkeypatch.setattr("platform_node.node.ROLL_S", 3600.0)
    hub = await inprocess.secure_hub()
    a = await inprocess.secure_local("10008", hub)
    await linked(a)
    former, folder, write = hub.registry.authority, hub.settings.pki_dir, files.write_safely
    writes_left = 0

    def write_or_end(path: Path, content: bytes, mode: int = 0o644) -> None:
        nonlocal writes_left
        if path.is_relative_to(folder):
            writes_left -= 1
            if writes_left < 0:
                raise ProcessEnded
        write(path, content, mode)

    for module in ("semq.pki.authority", "semq.pki.keys", "semq.pki.slots", "semq.service.credentials.identity"):
        monkeypatch.setattr(f"{module}.write_safely", write_or_end)
    monkeypatch.setattr("platform_node.authority_roll.write_safely", write_or_end)
    ends = 0
    for life in range(50):
        writes_left = life
        if (roll := read_roll(folder)) is not None and roll.phase is Phase.DONE:
            break
        # The steps of a start
        hub.registry.authority = prepare_authority(hub.settings, hub.clock)
        hub.node_identity = NodeIdentity(hub.settings, hub.clock)
        hub.server.listener.use_tls(hub.node_identity.server_tls())
        hub.authority_roll = AuthorityRoll(hub)
        hub.announce_authority()
        try:
            hub.authority_roll.begin(())
            await hub.authority_roll.advance()
        except ProcessEnded:
            ends += 1
        await until(lambda: "1.10008" in hub.parts.questions.readers())
    assert ends >= 5
    assert hub.authority_roll is not None
    await until(lambda: "1.10008" in hub.parts.questions.readers())
    await hub.authority_roll.advance()
    await until(lambda: uses_new_authority(a, hub))
    assert former is not None
    assert hub.registry.authority is not None
    assert hub.registry.authority.fingerprint != former.fingerprint
    await linked(a)
