"""Reload of the configuration."""

import asyncio
from pathlib import Path
from typing import Any, get_args

import pytest

from local_node.node import LocalNode
from semq.amqp import errors as amqp
from semq.amqp.content import ContentHeader, Properties
from semq.config import load
from semq.config.reload_keys import RELOADED
from semq.config.settings import Settings
from semq.errors import SemqError
from semq.transport.client import ClientLink
from tests.local_node.test_node import confirming, publish
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, ask, linked
from tests.waiting import until

USERS = """virtual_hosts = ["shop"]
max_connections = 50
[amqp.users]
ops = "o"
all = "a"
[amqp.users.web]
password = "w"
admin = false
[amqp.users.web.permissions]
"/" = { configure = "^web", write = ".*", read = "^web" }
shop = { configure = ".*", write = ".*", read = ".*" }
"""


async def local(inprocess: InProcess, hub: int = 1) -> LocalNode:
    text = LOCAL_CONFIG.format(name="10008", hub=hub).replace("port = 0\n", f"port = 0\n{USERS}", 1)
    return await inprocess.start_node(inprocess.settings("10008", text))


@pytest.fixture(scope="module")
async def unchanged_node(shared_inprocess: InProcess) -> LocalNode:
    """A node for tests that change only its file."""
    return await local(shared_inprocess)


def rewrite(node: Any, *changes: tuple[str, str]) -> None:
    """Replace texts in the node's file."""
    file: Path = node.settings.file
    text = file.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)


async def client(inprocess: InProcess, node: LocalNode, user: str, virtual_host: str = "/", **more: Any) -> ClientLink:
    return await inprocess.client(node, **{"user": user, "password": user[0], "virtual_host": virtual_host, **more})


async def reload(link: ClientLink, **arguments: Any) -> Any:
    answer = await ask(link, "node.reload", arguments)
    assert answer["ok"], answer
    return answer["result"]


async def wait_closed(link: ClientLink) -> None:
    async with asyncio.timeout(60):
        await link.wait_closed()


async def test_a_reload_of_the_same_file_changes_nothing(inprocess: InProcess) -> None:
    node = await local(inprocess)
    users = dict(node.users.users)
    link = await client(inprocess, node, "ops")
    assert await reload(link) == {"changed": [], "restart": [], "ended": []}
    assert node.users.users == users


async def test_users_are_added_changed_and_removed(inprocess: InProcess) -> None:
    node = await local(inprocess)
    ops, all_, web = [await client(inprocess, node, user) for user in ("ops", "all", "web")]
    rewrite(node, ('all = "a"', 'new = "n"'), ('password = "w"', 'password = "v"'))
    result = await reload(ops)
    assert result["changed"] == [
        "amqp.users.all.admin",
        "amqp.users.all.inboxes",
        "amqp.users.all.password",
        "amqp.users.all.permissions",
        "amqp.users.new.admin",
        "amqp.users.new.inboxes",
        "amqp.users.new.password",
        "amqp.users.new.permissions",
        "amqp.users.web.password",
    ]
    assert (result["restart"], result["ended"]) == ([], ["all"])
    await wait_closed(all_)
    assert web.is_open  # a changed password counts from the next login
    await client(inprocess, node, "new")
    await client(inprocess, node, "web", password="v")
    for user in ("all", "web"):
        with pytest.raises(amqp.AmqpError):
            await client(inprocess, node, user)


async def test_a_user_that_removes_itself_gets_the_answer_first(inprocess: InProcess) -> None:
    node = await local(inprocess)
    ops = await client(inprocess, node, "ops")
    rewrite(node, ('ops = "o"\n', ""))
    assert (await reload(ops))["ended"] == ["ops"]
    await wait_closed(ops)


async def test_changed_rights_apply_to_connected_users(inprocess: InProcess) -> None:
    node = await local(inprocess)
    ops, allowed, forbidden, shop = [
        await client(inprocess, node, user, virtual_host)
        for user, virtual_host in (("ops", "/"), ("web", "/"), ("web", "/"), ("web", "shop"))
    ]
    for name, link in (("web.a", allowed), ("web.b", forbidden)):
        await (await link.open_channel()).declare_queue(name)
    await (await allowed.open_channel()).consume("web.a", lambda _: None)
    await (await forbidden.open_channel()).consume("web.b", lambda _: None)
    rewrite(
        node, ('read = "^web" }', 'read = "^web.a" }'), ('shop = { configure = ".*", write = ".*", read = ".*" }', "")
    )
    assert (await reload(ops))["ended"] == ["web"]
    await wait_closed(forbidden)
    await wait_closed(shop)
    assert allowed.is_open
    channel = await allowed.open_channel()
    with pytest.raises(amqp.AccessRefused):
        await channel.get("web.b")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max_connections = 50", 'max_connections = "many"'),
        ("max_connections = 50", "max_connection = 50"),
        ('"/" = {', '"/" = {{'),
        ('shop = {', 'shops = {'),
    ],
)  # fmt: skip
async def test_a_file_that_is_wrong_changes_nothing(
    shared_inprocess: InProcess, unchanged_node: LocalNode, old: str, new: str
) -> None:
    node = unchanged_node
    ops, all_ = [await client(shared_inprocess, node, user) for user in ("ops", "all")]
    before, users = node.settings, node.users.users
    assert node.settings.file is not None
    text = node.settings.file.read_text()
    rewrite(node, ('all = "a"', 'new = "n"'), (old, new))
    answer = await ask(ops, "node.reload")
    assert not answer["ok"]
    assert answer["error"]["code"] in ("SEMQ-2010", "SEMQ-2011")
    assert (node.settings, node.users.users) == (before, users)
    assert all_.is_open
    node.settings.file.unlink()
    assert not (await ask(ops, "node.reload"))["ok"]
    assert node.settings is before
    node.settings.file.write_text(text)


async def test_changed_limits_apply_immediately_and_other_changes_are_named(inprocess: InProcess) -> None:
    node = await local(inprocess)
    ops = await client(inprocess, node, "ops")
    rewrite(
        node,
        ("max_connections = 50", "max_connections = 2\nmax_queues = 30\nmemory_bytes = 4000\nheartbeat_s = 7"),
        ("cleanup_s = 0.1", "cleanup_s = 0.2\nquota_rows_per_partner = 5"),
    )
    expected = ["amqp.max_connections", "amqp.max_queues", "amqp.memory_bytes", "protocol.quota_rows_per_partner"]
    restart = ["amqp.heartbeat_s", "protocol.cleanup_s"]
    for _ in range(2):
        result = await reload(ops, dry_run=True)
        assert (result["changed"], result["restart"]) == (expected, restart)
    result = await reload(ops)
    assert (result["changed"], result["restart"]) == (expected, restart)
    assert (await reload(ops))["restart"] == restart
    assert (node.settings.amqp.heartbeat_s, node.settings.protocol.cleanup_s) == (60, 0.1)
    assert node.engine.core.settings.quota_rows_per_partner == 5
    assert node.server.vhosts["/"].limits.queues_max == 30
    await client(inprocess, node, "all")
    with pytest.raises((OSError, SemqError)):
        await client(inprocess, node, "all")
    channel = await ops.open_channel()
    await channel.declare_queue("one", durable=True)
    big = b"x" * 5000
    channel.publish("", "one", ContentHeader.build(len(big), Properties(delivery_mode=2)), big)
    await until(lambda: node.server.alarm)
    rewrite(node, ("memory_bytes = 4000\n", ""))
    node.reload_soon()
    await until(lambda: node.server.alarm is None)


async def test_new_virtual_hosts_without_stored_contents_are_added_at_once_and_other_changes_need_a_restart(
    inprocess: InProcess,
) -> None:
    node = await local(inprocess)
    ops = await client(inprocess, node, "ops")
    shop = await client(inprocess, node, "web", "shop")
    await (await shop.open_channel()).declare_queue("kept", durable=True)
    rewrite(
        node,
        ('virtual_hosts = ["shop"]', 'virtual_hosts = ["fresh"]'),
        ('shop = { configure', 'fresh = { configure'),
    )  # fmt: skip
    result = await reload(ops)
    assert "amqp.virtual_hosts" in result["changed"]
    assert result["restart"] == ["amqp.virtual_hosts"]  # a removed virtual host stays until the next start
    await wait_closed(shop)
    fresh = await client(inprocess, node, "web", "fresh")
    await (await fresh.open_channel()).declare_queue("kept", durable=True)
    await node.stop()
    restarted = await inprocess.start_node(load(node.settings.file, {}))
    rewrite(restarted, ('virtual_hosts = ["fresh"]', 'virtual_hosts = ["fresh", "shop", "third"]'))
    result = await reload(await client(inprocess, restarted, "ops"))
    assert (result["changed"], result["restart"]) == (["amqp.virtual_hosts"], ["amqp.virtual_hosts"])
    assert restarted.settings.amqp.virtual_hosts == ["fresh", "third"]
    assert sorted(restarted.server.vhosts) == ["/", "fresh", "third"]


async def test_institutions_are_added_changed_and_removed_at_the_hub(inprocess: InProcess) -> None:
    hub = await inprocess.hub(HUB_CONFIG.replace('[nodes."88001"]\npassword = "pass-88001"\n', ""))
    sender = await inprocess.local("10008", hub.port)
    await linked(sender)
    link = await inprocess.client(hub)
    rewrite(
        hub,
        ('[nodes."56001"]\npassword = "pass-56001"\n', '[nodes."88001"]\npassword = "pass-88001"\n'),
        ('"56001", "10008"', '"88001"'),
    )
    result = await reload(link)
    assert "nodes.10008.may_send_to" in result["changed"]
    assert [row["node"] for row in (await ask(link, "nodes.list"))["result"]] == ["1.10008", "1.88001"]
    receiver = await inprocess.local("88001", hub.port)
    await linked(sender, receiver)
    channel = await confirming(await inprocess.client(sender))
    assert await publish(channel, "88001", b"to the new one")
    await until(lambda: not sender.engine.rows.unsettled.get("1.88001"))
    rewrite(hub, ('[nodes."88001"]\npassword = "pass-88001"\n', ""), ('"88001"', '"10008"'))
    assert "1.88001" in (await reload(link))["ended"]
    await until(lambda: "1.88001" not in hub.engine.sessions)


async def test_answer_partners_changes_with_a_reload_and_reconnect_s_max_with_a_restart(inprocess: InProcess) -> None:
    node = await local(inprocess)
    link = await client(inprocess, node, "ops")
    rewrite(node, ("[hub]\n", "[hub]\nanswer_partners = false\n"), ("reconnect_s_max = 0.2", "reconnect_s_max = 0.3"))
    result = await reload(link)
    assert (result["changed"], result["restart"]) == (["hub.answer_partners"], ["hub.reconnect_s_max"])
    assert node.settings.hub is not None
    assert not node.settings.hub.answer_partners


def test_every_reloadable_setting_is_a_field_of_the_settings() -> None:
    for section, keys in RELOADED.items():
        field: Any = Settings.model_fields[section].annotation
        alternatives = [type_ for type_ in get_args(field) if type_ is not type(None)] if section == "hub" else []
        model = alternatives[0] if alternatives else field
        assert all(key in model.model_fields for key in keys)
