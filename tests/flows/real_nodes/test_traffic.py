"""Real nodes under load: finished rows are deleted at once; documents for an offline partner use up a quota."""

import pytest
from msgspec.structs import replace

from local_node.node import LocalNode
from semq.app import Client, NodeBusy, NotDelivered
from semq.config.settings import Settings
from semq.engine.errors import QuotaReached
from tests.cli.command import semq_aside
from tests.flows.real_nodes.test_left_alone import RealInstitution, count, remaining_rows
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, linked
from tests.waiting import until

COUNT = 400
QUOTA = 3


async def begin(inprocess: InProcess, settings: Settings) -> RealInstitution:
    node = await inprocess.start_node(settings)
    channel = await (await inprocess.client(node)).open_channel()
    await channel.confirm_select()
    return RealInstitution(node, channel)


async def test_finished_rows_are_deleted_under_full_traffic_without_the_cleanup(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the cleanup, rows are deleted only by the transactions that end them."""
    original = LocalNode.engine_settings
    monkeypatch.setattr(LocalNode, "engine_settings", lambda node: replace(original(node), clean_rows=0))
    hub = await inprocess.hub()
    sender, receiver = [
        await begin(inprocess, inprocess.settings(name, LOCAL_CONFIG.format(name=name, hub=hub.port)))
        for name in ("10008", "56001")
    ]
    await linked(sender.node, receiver.node)
    await receiver.consume()
    await sender.submit(0, COUNT)
    await until(lambda: len(receiver.received) == COUNT)
    await until(lambda: not remaining_rows((hub, sender.node, receiver.node)))
    assert sorted(map(int, receiver.received)) == list(range(COUNT))


async def test_documents_for_an_offline_partner_use_up_its_quota(inprocess: InProcess) -> None:
    """The next one is refused until the partner has received the waiting ones; operators see the quota."""
    hub = await inprocess.hub()
    text = LOCAL_CONFIG.format(name="10008", hub=hub.port) + f"quota_rows_per_partner = {QUOTA}\noverdue_s = 0.001\n"
    node = await inprocess.start_node(inprocess.settings("10008", text))
    await linked(node)
    at = f"amqp://guest:guest@127.0.0.1:{node.port}"
    async with Client(at) as client:
        for number in range(QUOTA):
            await client.send("56001", b"%d" % number)
        with pytest.raises(NodeBusy) as caught:
            await client.send("56001", b"one too many")
        assert QuotaReached.code in str(caught.value)
        result = await semq_aside("msg", "send", "--to", "56001", "--node", at, stdin=b"x")
        assert result.status == 69
        assert QuotaReached.code in result.err
        status = await client.request("node.status")
        assert status["partners"]["1.56001"]["waiting"] == QUOTA
        assert status["partners"]["1.56001"]["quota_reached"] is True
        stuck = (await client.request("stuck.list"))["rows"]
        assert [row["stuck"]["cause"] for row in stuck] == ["TARGET_OFFLINE"] * QUOTA
        receiver = await begin(inprocess, inprocess.settings("56001", LOCAL_CONFIG.format(name="56001", hub=hub.port)))
        await receiver.consume()
        await until(lambda: len(receiver.received) == QUOTA)
        await until(lambda: not node.engine.rows.unsettled.get("1.56001"))
        sent = await client.send("56001", b"welcome again")
        assert (await client.wait_for_delivery(sent.lk0, 60)).is_delivered


async def test_a_document_beyond_the_quota_at_the_hub_ends_rejected(inprocess: InProcess) -> None:
    hub = await inprocess.hub(HUB_CONFIG + f"quota_rows_per_partner = {QUOTA}\n")
    node = await inprocess.local("10008", hub.port)
    await linked(node)
    at = f"amqp://guest:guest@127.0.0.1:{node.port}"
    async with Client(at) as client:
        for number in range(QUOTA):
            await client.send("56001", b"%d" % number)
        await until(lambda: count(hub, "tb_0031") == QUOTA)
        sent = await client.send("56001", b"one too many")
        with pytest.raises(NotDelivered) as caught:
            await client.wait_for_delivery(sent.lk0, 60)
        assert caught.value.facts["outcome"] == "REJECTED"
        assert QuotaReached.code in str(caught.value)
        result = await semq_aside("stuck", "explain", sent.lk0, "--node", at)
        assert "REFUSED: it was refused" in result.out
        assert QuotaReached.code in result.out
