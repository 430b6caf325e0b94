"""Documents that ended without delivery, submitted again for an operator (`semq failed requeue`)."""

import asyncio
from typing import Any

import pytest

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.app import Client
from semq.config.reach import url_of
from semq.store.rows import Event
from semq.transport.client import ClientLink
from tests.local_node.doors.test_refused_submissions import collect_events
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until


class Trouble:
    """Institution 10008 with a document to 56001 that has failed, and the operators of both nodes."""

    def __init__(self, nodes: InProcess, hub: HubNode, a: LocalNode, link: ClientLink) -> None:
        self.nodes, self.hub, self.a, self.link = nodes, hub, a, link

    @classmethod
    async def start(cls, nodes: InProcess, *, is_sealed: bool = False) -> "Trouble":
        hub = await (nodes.secure_hub() if is_sealed else nodes.hub())
        a = await (nodes.secure_local("10008", hub) if is_sealed else nodes.local("10008", hub.port))
        await linked(a)
        return cls(nodes, hub, a, await nodes.client(a))

    async def failed(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = (await ask(self.link, "failed.list"))["result"]["rows"]
        return rows

    async def refused(self, receiver: LocalNode | None = None, **how: Any) -> str:
        """Send a document that the hub's operator refuses; return its LK0 when it has failed."""
        async with Client(url_of(self.a.settings, self.a.port)) as sender:
            lk0 = (await sender.send("56001", b"the body", app_key="a/order//S-7", token="T-7", **how)).lk0
        await until(lambda: self.hub.engine.custody.rows_by_target.get("1.56001"))
        await ask(await self.nodes.client(self.hub), "held.refuse", {"ids": [lk0], "why": "closed"})
        return lk0

    async def requeue(self, *lk0s: str) -> Any:
        return await ask(self.link, "failed.requeue", {"ids": lk0s, "why": "repaired"})

    async def lines(self, lk0: str) -> list[tuple[str, str]]:
        events = (await ask(self.link, "msg.trace", {"id": lk0}))["result"]["events"]
        return [(line["event"], line["detail"]) for line in events]


@pytest.mark.parametrize("is_sealed", [False, True], ids=["in clear", "sealed"])
async def test_a_refused_document_is_submitted_again_once_under_another_name(
    inprocess: InProcess, is_sealed: bool
) -> None:
    world = await Trouble.start(inprocess, is_sealed=is_sealed)
    events = await collect_events(inprocess, world.a)
    b = await (inprocess.secure_local("56001", world.hub) if is_sealed else inprocess.local("56001", world.hub.port))
    await linked(b)
    if is_sealed:  # the certificate of the receiver is known
        async with Client(url_of(world.a.settings, world.a.port)) as sender:
            await until(lambda: world.a.sealing is not None and world.a.sealing.keys.receiver("1.56001"))
            await sender.send("56001", b"before", encrypt=True)
    await b.stop()
    old = await world.refused(encrypt=is_sealed)
    b = await inprocess.start_node(b.settings)  # tells that the document had not arrived
    await until(world.failed)
    first, second = await asyncio.gather(world.requeue(old), world.requeue(old))
    assert first == second == await world.requeue(old)
    assert first["result"]["requeued"] == 1
    became = first["result"]["became"][old]
    new = became["lk0"]
    assert (became["state"], new == old) == ("accepted", False)
    assert await world.failed() == []
    await until(lambda: [each for each in events if (each["event"], each["lk0"]) == ("delivered", new)])
    assert {each["token"] for each in events if each["lk0"] in (old, new)} == {"T-7"}
    assert (await world.lines(old))[-2:] == [
        ("OPERATOR", "to be sent again: repaired (by guest)"), ("OPERATOR", f"continues as {new}"),
    ]  # fmt: skip
    accepted = (await world.lines(new))[0]
    assert accepted[0] == Event.ACCEPTED.name
    assert f"the document of {old}" in accepted[1]
    assert (b"the body", new) in await received(b, 1 + is_sealed)


async def received(node: LocalNode, count: int) -> list[tuple[bytes, str]]:
    """Return body and LK0 of the next documents of an institution."""
    async with Client(url_of(node.settings, node.port)) as client, client.receive() as documents:
        return [(bytes(document.payload), document.lk0) for document in [await anext(documents) for _ in range(count)]]


async def test_an_expired_document_is_submitted_again_without_its_expiry(inprocess: InProcess) -> None:
    world = await Trouble.start(inprocess)
    b = await inprocess.local("56001", world.hub.port)
    await linked(b)
    await b.stop()
    async with Client(url_of(world.a.settings, world.a.port)) as sender:
        expires_at = world.a.engine.core.now_ms() + 300
        old = (await sender.send("56001", b"late", expires_at=expires_at)).lk0
    await until(lambda: world.a.engine.core.now_ms() > expires_at)
    b = await inprocess.start_node(b.settings)
    (row,) = await until(world.failed)
    assert row["reason"][0] == "SEMQ-1206"
    new = (await world.requeue(old))["result"]["became"][old]["lk0"]
    assert await received(b, 1) == [(b"late", new)]


async def test_a_document_that_may_not_be_sent_any_more_is_refused_again_and_stays(inprocess: InProcess) -> None:
    world = await Trouble.start(inprocess)
    old = await world.refused()
    await linked(await inprocess.local("56001", world.hub.port))
    await until(world.failed)
    world.a.engine.acceptance.stop()
    answer = (await world.requeue(old))["result"]
    assert (answer["requeued"], answer["became"][old]["state"]) == (1, "refused")
    assert answer["became"][old]["lk0"] == old
    assert [row["lk0"] for row in await world.failed()] == [old]


async def test_a_document_whose_body_is_gone_is_not_submitted_again_with_the_reason(inprocess: InProcess) -> None:
    world = await Trouble.start(inprocess)
    async with Client(url_of(world.a.settings, world.a.port)) as sender:
        expires_at = world.a.engine.core.now_ms() + 1000
        old = (await sender.send("56001", b"x", ack2=False, expires_at=expires_at)).lk0
    await until(lambda: world.hub.engine.custody.rows_by_target.get("1.56001"))
    await until(lambda: world.a.engine.core.now_ms() > expires_at)
    await linked(await inprocess.local("56001", world.hub.port))
    await until(world.failed)
    answer = (await world.requeue(old))["result"]["became"][old]
    assert (answer["state"], answer["lk0"], answer["reason"][0]) == ("refused", old, "SEMQ-1225")
