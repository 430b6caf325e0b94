"""Users of institutions: which of them receive now, and one document to all of them."""

import re
from typing import Any

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.app import Client
from semq.transport.client import ClientLink
from tests.platform_node.test_cluster import hubs_of, settle_homes
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until

DEFINITIONS = '[nodes.56001]\nusers = ["desk", "sales"]\n'


async def import_definitions(inprocess: InProcess, hub: HubNode) -> None:
    answer = await ask(await inprocess.client(hub), "definitions.import", {"document": DEFINITIONS})
    assert answer["ok"], answer


async def consume(link: ClientLink, user: str) -> None:
    await (await link.open_channel()).consume(f"semq.inbox.{user}", lambda batch: None)


async def until_shown(inprocess: InProcess, node: LocalNode, expected: dict[str, bool]) -> None:
    link = await inprocess.client(node)

    async def is_shown() -> bool:
        rows: list[dict[str, Any]] = (await ask(link, "users.list"))["result"]
        return {f"{row['node']}/{row['user']}": row["present"] for row in rows} == expected

    await until(is_shown)


async def test_partners_see_which_of_the_named_users_receive(inprocess: InProcess, monkeypatch: Any) -> None:
    monkeypatch.setattr("local_node.doors.user_presence.PAUSE_S", 0.1)
    hub = await inprocess.hub()
    a, b = await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)
    await linked(a, b)
    await import_definitions(inprocess, hub)
    all_absent = {"1.56001/desk": False, "1.56001/sales": False}
    await until_shown(inprocess, a, all_absent)
    program = await inprocess.client(b)
    await consume(program, "desk")
    await consume(program, "secret")  # not named in the definitions
    await until_shown(inprocess, a, all_absent | {"1.56001/desk": True})
    await until_shown(inprocess, b, all_absent | {"1.56001/desk": True, "1.56001/secret": True})
    # A node that logs in later receives the report, too.
    await a.parts.hub.restart()
    await linked(a)
    await until_shown(inprocess, a, all_absent | {"1.56001/desk": True})
    await program.close()
    await until_shown(inprocess, a, all_absent)
    await consume(await inprocess.client(b), "sales")
    await until_shown(inprocess, a, all_absent | {"1.56001/sales": True})
    await b.stop()
    await until_shown(inprocess, a, all_absent)


async def test_the_presence_of_users_crosses_instances_of_the_hub(inprocess: InProcess) -> None:
    async with hubs_of(inprocess) as hubs:
        first, second = await hubs.instance(1), await hubs.instance(2)
        await import_definitions(inprocess, first)
        await second.definition_operations.follow()
        await settle_homes(first, second)
        a, b = await hubs.local("10008", first), await hubs.local("56001", second)
        await linked(a, b)
        await consume(await inprocess.client(b), "desk")
        await until_shown(inprocess, a, {"1.56001/desk": True, "1.56001/sales": False})


async def test_one_submission_reaches_all_users(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)
    await linked(a, b)
    await import_definitions(inprocess, hub)
    await until_shown(inprocess, a, {"1.56001/desk": False, "1.56001/sales": False})
    url = "amqp://guest:guest@127.0.0.1:{}"
    async with Client(url.format(a.port)) as sender, Client(url.format(b.port)) as receiver:
        sent = await sender.send("4.56001", b"for all")
        for user in ("desk", "sales"):
            async with receiver.receive(user=user) as documents:
                async for document in documents:
                    assert document.body == b"for all"
                    await document.ack()
                    break
        app = await inprocess.client(a)

        async def all_delivered() -> bool:
            row = (await ask(app, "msg.show", {"id": sent.lk0}))["result"]
            return bool(row["outcome"] == "DELIVERED" and len(row["members"]) == 2)

        await until(all_delivered)
        traced = (await ask(app, "msg.trace", {"id": sent.lk0, "parties": True}))["result"]
        accepted = [line["detail"] for line in traced["events"] if line["event"] == "ACCEPTED"]
        assert [re.sub(" of .*", "", detail) for detail in accepted] == [
            "1.56001/desk: SaveFwd=3 Ack2=1, member 1",
            "1.56001/sales: SaveFwd=3 Ack2=1, member 2",
        ]
        delivered = [line["detail"] for line in traced["events"] if line["event"] == "DELIVERED"]
        assert sorted(delivered) == ["1.56001/desk", "1.56001/sales"]
        assert traced["members"] == 2
        assert traced["unanswered"]
