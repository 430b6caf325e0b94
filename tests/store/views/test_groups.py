"""Documents to a group through real nodes."""

from typing import Any

import pytest

from semq.app import Client
from semq.app.errors import RefusedByNode
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until

DEFINITIONS = """
[groups.retailers]
members = ["10008", "56001", "77001"]

[groups.one]
members = ["56001"]

[nodes.77001]
name = "never online"

[[agreements]]
from = ["*"]
to = ["*"]
"""


async def test_each_member_has_an_outcome_and_one_name_shows_all(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)
    answer = await ask(await inprocess.client(hub), "definitions.import", {"document": DEFINITIONS})
    assert "+ group retailers: 10008, 56001, 77001" in answer["result"]["changes"]
    await linked(a, b)
    await until(lambda: "3.retailers" in a.engine.partners.groups)
    login = "guest:guest@127.0.0.1"
    async with Client(f"amqp://{login}:{a.port}") as sender, Client(f"amqp://{login}:{b.port}") as receiver:
        with pytest.raises(RefusedByNode, match="SEMQ-1201"):
            await sender.send("3.retailer", b"x")
        sent = await sender.send("3.retailers/desk", b"<order/>", app_key="trade/order//G1", token="g")
        assert sent.members == 2
        again = await sender.send("3.retailers/desk", b"<order/>", app_key="trade/order//G1", token="g")
        assert (again.lk0, again.repeated) == (sent.lk0, True)
        async with receiver.receive("desk") as documents:
            document = await anext(aiter(documents))
            assert (document.payload, document.target) == (b"<order/>", "1.56001/desk")
            await document.ack()

        async def shown() -> dict[str, Any]:
            return await sender.look(sent.name)

        async def is_delivered_to_one() -> bool:
            return "DELIVERED" in (await shown())["summary"]

        await until(is_delivered_to_one)
        group = await shown()
        assert (group["lk0"], group["group"], group["outcome"]) == (sent.lk0, "3.retailers/desk", None)
        assert [(member["target"], member["outcome"]) for member in group["members"]] == [
            ("1.56001/desk", "DELIVERED"), ("1.77001/desk", None),
        ]  # fmt: skip
        cancelled = await sender.request("msg.cancel", {"id": sent.lk0})
        assert (cancelled["cancelling"], cancelled["members"]) == (True, 1)
        one = await sender.send("3.one", b"x")
        assert (await sender.wait_for_delivery(one.lk0)).outcome == "DELIVERED"
        with pytest.raises(RefusedByNode, match="SEMQ-1207"):
            await sender.look(document.lk0 + "9")
        await ask(await inprocess.client(hub), "definitions.import", {"document": DEFINITIONS.replace('"77001"]', "]")})
        await until(lambda: a.engine.partners.groups["3.retailers"].members == ("1.56001",))


async def test_a_scheduled_document_to_a_group_keeps_its_name_when_it_is_released(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)
    await ask(await inprocess.client(hub), "definitions.import", {"document": DEFINITIONS})
    await linked(a, b)
    await until(lambda: "3.one" in a.engine.partners.groups)
    login = "guest:guest@127.0.0.1"
    async with Client(f"amqp://{login}:{a.port}") as sender:
        later = await sender.send("3.one", b"later", not_before=a.engine.core.now_ms() + 3_600_000)
        assert (await sender.look(later.lk0))["not_before"]
        await sender.request("msg.release", {"id": later.lk0})

        async def is_released() -> bool:
            return bool((await sender.look(later.lk0)).get("members"))

        await until(is_released)
        assert (await sender.wait_for_delivery(later.lk0)).outcome == "DELIVERED"
