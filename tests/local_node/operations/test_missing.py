"""A restored node lists what it has lost: documents of both directions, from all partners that it can ask."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from pydantic import SecretStr

from local_node.link.answers import Answers, NotTold
from local_node.node import LocalNode
from local_node.operations import missing
from semq.seal.errors import ReceiptForged
from semq.service.admin import RequestExchange
from semq.store.rows import Event
from semq.store.views import exchanged
from tests.flows.real_nodes.test_restored_node import copy_of, found, start
from tests.local_node.link.test_direct import Hubless, ledger_details
from tests.local_node.operations.test_trace import submit
from tests.local_node.virtual.hosting import hosting
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until

A, B, C = "10008", "56001", "88001"


async def missing_of(inprocess: InProcess, node: LocalNode, **arguments: Any) -> dict[str, Any]:
    answer: dict[str, Any] = (await ask(await inprocess.client(node), "node.missing", arguments))["result"]
    return answer


async def send(inprocess: InProcess, node: LocalNode, target: str, *keys: str) -> list[str]:
    """Send documents; return their locators after all are delivered."""
    before = len(ledger_details(node, Event.DELIVERED))
    lk0s = [await submit(inprocess, node, key, target) for key in keys]
    await until(lambda: len(ledger_details(node, Event.DELIVERED)) == before + len(keys))
    return lk0s


def told(answer: Mapping[str, Any]) -> set[tuple[str, ...]]:
    return {(row["lk0"], row["partner"], row["lost_as"], row["app_key"]) for row in answer["rows"]}


async def restored(inprocess: InProcess, node: LocalNode, backup: SecretStr) -> LocalNode:
    """Start a node with the backup of its database."""
    await node.stop()
    database = node.settings.database.model_copy(update={"url": backup})
    node = await start(inprocess, node.settings.model_copy(update={"database": database}))
    await until(lambda: node.store.counters.went_back == 1)
    return node


async def back_up(inprocess: InProcess, node: LocalNode) -> tuple[LocalNode, SecretStr]:
    """Back up a stopped node's database, and start the node again."""
    await node.stop()
    backup = SecretStr(copy_of(node.settings.database.dsn or ""))
    return await start(inprocess, node.settings), backup


async def answered(node: LocalNode, count: int) -> None:
    """Wait until all partners were asked in one run, and so many documents are missing."""
    await until(
        lambda: (survey := node.missing.survey) is not None and survey.first_round.is_set() and survey.count == count
    )


async def test_a_restored_node_lists_what_it_has_lost(inprocess: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanged, "ROWS_MAX", 2)  # several pages
    hub = await inprocess.secure_hub()
    a, b, c = [await inprocess.secure_local(name, hub) for name in (A, B, C)]
    await linked(a, b, c)
    await send(inprocess, a, B, "K0")
    b, backup = await back_up(inprocess, b)
    assert await missing_of(inprocess, b) == {"since": None, "count": 0, "rows": [], "unanswered": []}
    from_a = await send(inprocess, a, B, "K1", "K2", "K3")
    (to_a,) = await send(inprocess, b, A, "K4")
    (from_c,) = await send(inprocess, c, B, "K5")
    await send(inprocess, c, A, "K6")
    await c.stop()
    to_c = await submit(inprocess, b, "K7", C)
    await until(partial(ledger_details, b, Event.STORED))  # at the hub
    b = await restored(inprocess, b, backup)
    await answered(b, 5)
    answer = await missing_of(inprocess, b)
    lost = {(lk0, f"1.{A}", "receiver", f"trade/order//K{n}") for n, lk0 in enumerate(from_a, 1)}
    lost.add((to_a, f"1.{A}", "sender", "trade/order//K4"))
    assert told(answer) == lost | {(to_c, f"1.{C}", "sender", "")}
    assert answer["unanswered"] == [{"node": f"1.{C}", "why": missing.OFFLINE}]
    _, check = await found(inprocess, b)
    assert "documents that it lacks: 5 (`semq node missing`); partners to be asked yet: 1" in check["detail"]
    c = await start(inprocess, c.settings)
    await until(lambda: b.engine.partners.online[f"1.{C}"])
    await until(lambda: hub.parts.questions.has_reader(f"1.{C}"))
    b.clockwork.hasten(missing.JOB)
    await answered(b, 6)
    answer = await missing_of(inprocess, b)
    assert answer["unanswered"] == []
    assert {row[:3] for row in told(answer)} == {row[:3] for row in lost} | {
        (from_c, f"1.{C}", "receiver"), (to_c, f"1.{C}", "sender")
    }  # fmt: skip
    # Also after the next start, and without a reason to suspect anything.
    await b.stop()
    b = await start(inprocess, b.settings)
    since = int(b.clock.wall().timestamp() * 1000) - 3_600_000
    await until(partial(ledger_details, c, Event.RECEIVED))
    await missing_of(inprocess, b, since=since)
    await answered(b, 6)
    again = await missing_of(inprocess, b)
    assert {row[:3] for row in told(again)} == {row[:3] for row in told(answer)}
    assert (to_c, f"1.{C}", "sender", "trade/order//K7") in told(again)  # now from its receiver, which knows the key
    await missing_of(inprocess, a, since=since)
    await answered(a, 0)


async def test_partners_that_do_not_answer_are_named_with_the_reason(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await inprocess.secure_hub()
    a, b = [await inprocess.secure_local(name, hub) for name in (A, B)]
    await linked(a, b)
    await send(inprocess, a, B, "K1")
    asked = 0

    async def why() -> str:
        nonlocal asked
        asked += 1
        await missing_of(inprocess, b, since=asked)
        await answered(b, 0)
        answer = await missing_of(inprocess, b)
        reasons = {party["node"]: party["why"] for party in answer["unanswered"]}
        return str(reasons.get(f"1.{A}", ""))

    async def older(answers: Answers, question: Any) -> Mapping[str, Any]:
        return await answers._story(question.lk0, question.asker, question.nonce, "2.hub")

    async def silent(*_: Any) -> Mapping[str, Any]:
        raise NotTold

    async def lying(answers: Answers, *question: Any) -> Mapping[str, Any]:
        return {**await truly(answers, *question), "story": '{"rows": []}'}

    truly = Answers._page
    assert await why() == ""
    with monkeypatch.context() as patch:
        patch.setattr(Answers, "_result", older)
        assert await why() == missing.OLDER
    with monkeypatch.context() as patch:
        patch.setattr(Answers, "_page", silent)
        assert NotTold.code in await why()
    with monkeypatch.context() as patch:
        patch.setattr(Answers, "_page", lying)
        assert "signature" in await why()
    # A hub that asks in the name of another node learns nothing.
    question = {"asker": f"1.{B}", "nonce": "n", "exchanged": {"since": 0}, "signature": ""}
    answer = await hub.parts.questions.ask(f"1.{A}", question)
    assert not answer["ok"]
    assert isinstance(answer["error"], dict)
    assert answer["error"]["code"] == ReceiptForged.code
    exchange = hub.server.vhosts["enroll"].exchanges["semq.ask"]
    assert isinstance(exchange, RequestExchange)
    for other in (7, {"story": '{"rows": [{"lk0": "\\u0000", "at": 1, "side": "hub"}]}'}, {"story": "[" * 9999}):

        async def answer_with(*_: Any, other: Any = other) -> dict[str, Any]:
            return {"other": other}

        monkeypatch.setitem(exchange._handlers, "exchanged", answer_with)
        await missing_of(inprocess, b, since=(asked := asked + 1))
        await answered(b, 0)
        assert b.missing.survey is not None
        assert {f"1.{A}", "2.hub"} <= set(b.missing.survey.unanswered)
    monkeypatch.delitem(exchange._handlers, "exchanged")  # a hub of an older version
    assert await why() == f"The hub: {missing.OLDER}"


async def test_nodes_without_a_hub_ask_each_other(inprocess: InProcess) -> None:
    hubless = Hubless(inprocess)
    a = await hubless.start_node(A, f'[direct."{B}"]\n')
    b = await hubless.start_node(B, f'[direct."{A}"]\nurls = ["amqps://127.0.0.1:{a.port}"]\n[direct."{C}"]\n')
    await until(lambda: bool(a.engine.uplink.partners and b.engine.uplink.partners))
    await b.stop()
    backup = SecretStr(copy_of(b.settings.database.dsn or ""))
    b = await inprocess.start_node(b.settings)
    lk0s = await send(inprocess, a, B, "K1", "K2")
    await b.stop()
    database = b.settings.database.model_copy(update={"url": backup})
    b = await inprocess.start_node(b.settings.model_copy(update={"database": database}))
    await answered(b, 2)
    answer = await missing_of(inprocess, b)
    assert {row["lk0"] for row in answer["rows"]} == set(lk0s)
    assert answer["unanswered"] == [{"node": f"1.{C}", "why": missing.NOT_DIALLED}]


async def test_an_institution_of_a_virtual_server_lists_what_it_has_lost(inprocess: InProcess) -> None:
    async with hosting(inprocess) as hosted:
        a, b, c, *_ = hosted.names
        await linked(*map(hosted.node, (a, b, c)))
        url = hosted.node(b).settings.database.dsn or ""
        hosted.write({a: "", c: ""})
        await hosted.ask("/", "server.reload")
        await until(lambda: b not in hosted.server.institutions)
        backup = copy_of(url)
        hosted.write({a: "", b: "", c: ""})
        await hosted.ask("/", "server.reload")
        await until(lambda: b in hosted.server.institutions and hosted.server.institutions[b].node is not None)
        await linked(hosted.node(b))
        lk0s = {await hosted.send(a, b), await hosted.send(c, b)}
        for name in (a, c):
            await until(partial(ledger_details, hosted.node(name), Event.DELIVERED))
        hosted.write({a: "", b: f'database.url = "{backup}"', c: ""})
        before = hosted.node(b)
        await hosted.ask("/", "server.restart", institution=b)
        await until(lambda: hosted.server.institutions[b].node not in (None, before))
        await answered(hosted.node(b), 2)
        answer = await hosted.ask(b, "node.missing")
        assert {row["lk0"] for row in answer["rows"]} == lk0s
