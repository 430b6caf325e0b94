"""A document to several receivers by the doors of a node: SQL, HTTP, and sealed."""

from typing import Any

import psycopg

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.app import Client
from tests.local_node.doors.test_user_presence import define, until_shown
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until
from tests.web.running import serving

USERS = ["1.56001/desk", "1.56001/sales"]


async def nodes(inprocess: InProcess, *, secure: bool = False) -> tuple[HubNode, LocalNode, LocalNode]:
    """Return a hub and two institutions, of which the first knows the users of the second."""
    hub = await (inprocess.secure_hub() if secure else inprocess.hub())
    if secure:
        a, b = await inprocess.secure_local("10008", hub), await inprocess.secure_local("56001", hub)
    else:
        a, b = await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)
    await linked(a, b)
    await define(inprocess, hub)
    await until_shown(inprocess, a, dict.fromkeys(USERS, False))
    return hub, a, b


async def targets(inprocess: InProcess, node: LocalNode, name: str) -> list[str]:
    """Return the receivers of a document by its name, when the node has accepted it."""
    link = await inprocess.client(node)

    async def shown() -> list[dict[str, Any]]:
        answer = await ask(link, "msg.show", {"id": name})
        return list(answer["result"].get("members", ())) if answer["ok"] else []

    return sorted(member["target"] for member in await until(shown))


async def received(node: LocalNode) -> list[bytes]:
    """Return what both users receive."""
    found: list[bytes] = []
    async with Client(f"amqp://guest:guest@127.0.0.1:{node.port}") as client:
        for user in ("desk", "sales"):
            async with client.receive(user=user) as documents:
                async for document in documents:
                    found.append(bytes(document.body))
                    await document.ack()
                    break
    return found


async def test_by_sql(inprocess: InProcess) -> None:
    _, a, b = await nodes(inprocess)
    with psycopg.connect(a.store.url) as connection:
        row = connection.execute("SELECT semq_send('4.56001', 'by SQL'::bytea)").fetchone()
    assert row is not None
    assert await targets(inprocess, a, f"sql-{row[0]}") == USERS
    assert await received(b) == [b"by SQL"] * 2


async def test_by_http(inprocess: InProcess) -> None:
    _, a, b = await nodes(inprocess)
    async with serving(a) as site:
        program = await site.program("submit", "events")
        sent = await program.post("/documents?target=4.56001", content=b"by HTTP")
        assert sent.status_code == 201, sent.text
        shown = (await program.get(f"/documents/{sent.json()['lk0']}")).json()
        assert sorted(member["target"] for member in shown["members"]) == USERS
        refused = await program.post("/documents?target=4.88001", content=b"x")
        assert "SEMQ-1201" in refused.text
    assert await received(b) == [b"by HTTP"] * 2


async def test_sealed_for_each_receiver(inprocess: InProcess) -> None:
    _, a, b = await nodes(inprocess, secure=True)
    sent = (await ask(await inprocess.client(a), "msg.submit", {"target": "4.56001", "body_base64": "eA=="}))["result"]
    assert await targets(inprocess, a, sent["lk0"]) == USERS

    def taken() -> bool:
        with psycopg.connect(b.store.url) as connection:
            rows = connection.execute("SELECT target_user, proved FROM tb_0030 ORDER BY target_user").fetchall()
        return rows == [("desk", True), ("sales", True)]

    await until(taken)
