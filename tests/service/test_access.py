"""Rights of configured users, and the separation of virtual hosts."""

import asyncio
from typing import Any

import pytest

from local_node.node import LocalNode
from semq.amqp import errors as amqp
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered
from semq.broker.users import Right
from semq.clock import SystemClock
from semq.config import load
from semq.service.access import ApplicationPermissions
from semq.transport.client import ClientLink
from tests.local_node.test_node import confirming, publish, put
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, ask, linked
from tests.transport.publishing import publish_and_wait

USERS = """
virtual_hosts = ["shop"]
[amqp.users]
all = "a"
[amqp.users.web]
password = "w"
inboxes = ["web"]
[amqp.users.web.permissions]
"/" = { write = "^semq$", read = "^semq\\\\.inbox" }
shop = { configure = "^kept$", write = "^(kept|amq\\\\.default)$", read = ".*" }
[amqp.users.ops]
password = "o"
admin = true
permissions = {}
"""


@pytest.mark.parametrize(
    ("permissions", "right", "name", "allowed"),
    [
        (ApplicationPermissions(), Right.WRITE, "semq.admin", False),
        (ApplicationPermissions(is_admin=True), Right.WRITE, "semq.admin", True),
        (ApplicationPermissions(is_admin=True), Right.CONFIGURE, "semq.admin", False),
        (ApplicationPermissions("", "", "", is_admin=True), Right.WRITE, "semq.admin", True),
        (ApplicationPermissions("", "", "", is_admin=True), Right.CONFIGURE, "amq.gen-1", True),
        (ApplicationPermissions("", "", "", is_admin=True), Right.WRITE, "semq", False),
        (ApplicationPermissions("", "", ""), Right.CONFIGURE, "amq.gen-1", False),
        (ApplicationPermissions(), Right.READ, "semq.inbox.any", True),
        (ApplicationPermissions(inboxes=frozenset(["semq.inbox"])), Right.READ, "semq.inbox.any", False),
        (ApplicationPermissions(inboxes=frozenset(["semq.inbox"])), Right.READ, "semq.inbox", True),
        (ApplicationPermissions(inboxes=frozenset()), Right.READ, "semq.inboxes", True),
        (ApplicationPermissions(read="^x", inboxes=frozenset(["semq.inbox"])), Right.READ, "semq.inbox", False),
    ],
)
def test_permissions_follow_patterns_is_admin_and_inboxes(
    permissions: ApplicationPermissions, right: Right, name: str, allowed: bool
) -> None:
    assert permissions.allow(right, name) is allowed


async def local(inprocess: InProcess, hub_port: int) -> LocalNode:
    text = LOCAL_CONFIG.format(name="56001", hub=hub_port).replace("port = 0\n", f"port = 0\n{USERS}", 1)
    return await inprocess.start_node(inprocess.settings("56001", text))


async def client(inprocess: InProcess, node: LocalNode, user: str, host: str = "/") -> ClientLink:
    return await inprocess.client(node, user=user, password=user[0], virtual_host=host)


async def consumed(link: ClientLink, queue: str) -> Delivered:
    channel = await link.open_channel()
    deliveries: asyncio.Queue[Delivered] = asyncio.Queue()
    await channel.consume(queue, lambda batch: put(deliveries, batch), no_ack=True)
    async with asyncio.timeout(60):
        delivered = await deliveries.get()
    channel.close()
    return delivered


async def check_refused(link: ClientLink, request: Any, error: type[amqp.AmqpError] = amqp.AccessRefused) -> None:
    channel = await confirming(link)
    with pytest.raises(error):
        async with asyncio.timeout(60):
            await request(channel)


async def test_a_user_has_the_configured_rights_and_no_others(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    node = await local(inprocess, hub.port)
    await linked(node)
    unrestricted, web, ops = [await client(inprocess, node, user) for user in ("all", "web", "ops")]
    for link in (unrestricted, ops):
        assert (await ask(link, "node.status"))["ok"]
    empty = ContentHeader.build(2, Properties(reply_to="x"))
    await check_refused(web, lambda channel: publish_and_wait(channel, "semq.admin", "node.status", empty, b"{}"))
    await check_refused(web, lambda channel: channel.declare_queue("any"))
    await check_refused(web, lambda channel: channel.consume("semq.inbox", put))
    await check_refused(web, lambda channel: channel.consume("semq.inbox.other", put))
    await check_refused(web, lambda channel: channel.get("semq.inbox.other"))
    await check_refused(web, lambda channel: channel.declare_queue("semq.inbox.other", passive=True))
    await check_refused(ops, lambda channel: publish(channel, "56001/web", b"x"))
    await check_refused(unrestricted, lambda channel: publish(channel, "77777", b"x"), amqp.NotFound)
    assert await publish(await confirming(web), "56001/web", b"to myself")
    assert bytes((await consumed(web, "semq.inbox.web")).body) == b"to myself"
    for user, host in (("all", "shop"), ("ops", "shop"), ("web", "umx")):
        with pytest.raises(amqp.AmqpError):
            await client(inprocess, node, user, host)


async def test_virtual_hosts_are_kept_apart_and_survive_a_restart(inprocess: InProcess) -> None:
    """A virtual host that is not configured keeps its stored contents."""
    hub = await inprocess.hub()
    node = await local(inprocess, hub.port)
    header = ContentHeader.build(4, Properties(delivery_mode=2))
    for user, host, body in (("all", "/", b"root"), ("web", "shop", b"shop")):
        channel = await confirming(await client(inprocess, node, user, host))
        await channel.declare_queue("kept", durable=True)
        assert await publish_and_wait(channel, "", "kept", header, body)
    await node.stop()

    file = inprocess.folder / "56001.toml"
    text = file.read_text()
    without = text.replace('virtual_hosts = ["shop"]', "").replace("shop = {", "# shop = {")
    file.write_text(without)
    without_host = LocalNode(load(file, {}), SystemClock())
    await without_host.start()
    with pytest.raises(amqp.AmqpError):
        await client(inprocess, without_host, "web", "shop")
    await without_host.stop()

    file.write_text(text)
    restarted = await inprocess.start_node(load(file, {}))
    for user, host, body in (("all", "/", b"root"), ("web", "shop", b"shop")):
        assert bytes((await consumed(await client(inprocess, restarted, user, host), "kept")).body) == body


async def test_the_hub_has_users_and_virtual_hosts_too(inprocess: InProcess) -> None:
    users = (
        'virtual_hosts = ["shop"]\n[amqp.users.web]\npassword = "w"\n[amqp.users.web.permissions]\nshop = {read=".*"}'
    )
    hub = await inprocess.hub(HUB_CONFIG.replace("port = 0\n", f"port = 0\n{users}\n", 1))
    link = await inprocess.client(hub, user="web", password="w", virtual_host="shop")
    await check_refused(link, lambda channel: channel.declare_queue("any"))
    for host in ("/", "umx", "enroll"):
        with pytest.raises(amqp.AmqpError):
            await inprocess.client(hub, user="web", password="w", virtual_host=host)
