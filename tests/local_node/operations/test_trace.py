"""The trace of a message: a node's own lines and those of its hub, for the parties of the message only."""

import asyncio
from typing import Any

import psycopg
import pytest

from local_node.errors import RefusedByHub
from local_node.link.answers import NotTold
from local_node.link.hub_request import VIRTUAL_HOST, request
from local_node.node import LocalNode
from local_node.operations.trace import EXCHANGE
from platform_node.node import HubNode
from platform_node.question_turns import ShareUsed
from platform_node.questions import NotAsked
from semq.engine.errors import NotThere
from semq.service.errors import Busy
from semq.store.rows import Event
from semq.transport.errors import DialFailed
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until


async def submitted(inprocess: InProcess, node: LocalNode, key: str, target: str = "56001") -> str:
    arguments = {"target": target, "body_base64": "eA==", "app_key": f"trade/order//{key}"}
    answer = await ask(await inprocess.client(node), "msg.submit", arguments)
    return str(answer["result"]["lk0"])


async def trace_of(inprocess: InProcess, node: LocalNode, name: str) -> dict[str, Any]:
    answer = await ask(await inprocess.client(node), "msg.trace", {"id": name, "parties": True})
    result: dict[str, Any] = answer["result"]
    return result


async def two(inprocess: InProcess, *, secure: bool) -> tuple[HubNode, LocalNode, LocalNode]:
    if secure:
        hub = await inprocess.secure_hub()
        return hub, await inprocess.secure_local("10008", hub), await inprocess.secure_local("56001", hub)
    hub = await inprocess.hub()
    return hub, await inprocess.local("10008", hub.port), await inprocess.local("56001", hub.port)


async def delivered(inprocess: InProcess, node: LocalNode, name: str) -> dict[str, Any]:
    """Return the complete trace of a delivered message, from all parties."""
    facts: dict[str, Any] = {}

    async def is_known() -> bool:
        nonlocal facts
        facts = await trace_of(inprocess, node, name)
        events = {(one["node"], one["event"]) for one in facts["events"]}
        return {("1.10008", "DELIVERED"), ("2.hub", "FORWARDED"), ("1.56001", "SENDER_ACKED")} <= events

    await until(is_known)
    return facts


@pytest.mark.parametrize("secure", [False, True])
async def test_all_three_parties_report_their_events(inprocess: InProcess, secure: bool) -> None:
    hub, a, b = await two(inprocess, secure=secure)
    await linked(a, b)
    lk0 = await submitted(inprocess, a, "S1")
    if secure:
        await until(lambda: a.sealing is not None and a.sealing.keys.knows("1.56001"))
        await until(lambda: b.sealing is not None and b.sealing.keys.knows("1.10008"))
    for node, other in ((a, "1.56001"), (b, "1.10008")):
        result = await delivered(inprocess, node, "S1")
        assert result["unanswered"] == []
        assert [one["at"] for one in result["events"]] == sorted(one["at"] for one in result["events"])
        passed_on = [one for one in result["events"] if one["node"] == other]
        assert {(one["via"], one["proved"]) for one in passed_on} == {("2.hub", secure)}
        assert all("via" not in one for one in result["events"] if one["node"] != other)
    at_hub = (await ask(await inprocess.client(hub), "msg.trace", {"id": lk0, "parties": True}))["result"]
    assert ({one["node"] for one in at_hub["events"]}, at_hub["unanswered"]) == ({"1.10008", "2.hub", "1.56001"}, [])
    alone = (await ask(await inprocess.client(a), "msg.trace", {"id": "S1"}))["result"]
    assert "unanswered" not in alone
    assert all("node" not in one for one in alone["events"])


async def test_private_details_of_a_node_are_not_sent_to_its_partner(inprocess: InProcess) -> None:
    _, a, b = await two(inprocess, secure=False)
    await linked(a, b)
    await submitted(inprocess, a, "S1")
    await delivered(inprocess, a, "S1")
    parked = {"id": "S1", "error": "Traceback: the secrets of our application"}
    assert (await ask(await inprocess.client(b), "failed.park", parked))["ok"]
    result = await trace_of(inprocess, a, "S1")
    assert ("1.56001", "PARKED") in {(one["node"], one["event"]) for one in result["events"]}
    assert "secrets" not in str(result)
    assert "secrets" in str(await trace_of(inprocess, b, "S1"))


async def test_a_node_that_cannot_be_asked_is_named_with_the_reason(inprocess: InProcess) -> None:
    _, a, b = await two(inprocess, secure=False)
    await linked(a, b)
    await submitted(inprocess, a, "S1")
    await delivered(inprocess, a, "S1")
    assert b.settings.hub is not None
    silent = b.settings.hub.model_copy(update={"answer_partners": False})
    b.settings = b.settings.model_copy(update={"hub": silent})
    [unasked] = (await trace_of(inprocess, a, "S1"))["unanswered"]
    assert (unasked["node"], NotTold.code in unasked["why"]) == ("1.56001", True)
    await b.stop()
    [unasked] = (await trace_of(inprocess, a, "S1"))["unanswered"]
    assert (unasked["node"], NotAsked.code in unasked["why"]) == ("1.56001", True)


async def test_a_hub_can_withhold_a_story_and_neither_alter_nor_invent_it(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, a, b = await two(inprocess, secure=True)
    await linked(a, b)
    lk0 = await submitted(inprocess, a, "S1")
    await until(lambda: a.sealing is not None and a.sealing.keys.knows("1.56001"))
    await delivered(inprocess, a, "S1")
    other = await submitted(inprocess, a, "S2")
    await delivered(inprocess, a, "S2")
    truth = hub.questions.ask
    seen: list[Any] = []

    async def lying(node: str, question: Any) -> Any:
        answer = await truth(node, question)
        seen.append(answer)
        return lie(answer)

    def altered(answer: Any) -> Any:
        story = answer["result"]["story"].replace("RECEIVED", "REJECTED")
        return {"ok": True, "result": answer["result"] | {"story": story}}

    def unsigned(answer: Any) -> Any:
        return {"ok": True, "result": answer["result"] | {"signature": ""}}

    def of_another(answer: Any) -> Any:
        return seen[0]  # a genuine answer, to another question

    def of_its_own(answer: Any) -> Any:
        line = {"at": "soon", "side": 1, "event": [], "words": None}
        return {"ok": True, "result": {"story": str([line]), "signature": "x.y", "node": "1.10008"}}

    monkeypatch.setattr(hub.questions, "ask", lying)
    for lie in (altered, unsigned, of_another, of_its_own, lambda answer: answer | {"result": None, "ok": 7}):
        lies = await trace_of(inprocess, a, lk0 if lie is not of_another else other)
        assert {one["node"] for one in lies["events"]} == {"1.10008", "2.hub"}
        assert [one["node"] for one in lies["unanswered"]] == ["1.56001"]


async def test_the_trace_of_a_cancellation_is_that_of_its_marker(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a = await inprocess.local("10008", hub.port)
    await linked(a)
    admin, name = await inprocess.client(a), {"id": "S1"}

    async def own() -> list[dict[str, Any]]:
        return [one for one in (await ask(admin, "msg.trace", name))["result"]["events"] if one["side"] == "sender"]

    await submitted(inprocess, a, "S1")  # its target is offline, so the hub stores it
    await until(lambda: _has(own, "STORED", 1))
    assert (await ask(admin, "msg.cancel", name | {"why": "ordered twice"}))["ok"]
    await until(lambda: _has(own, "STORED", 2))
    result = [(one["event"], one["words"].startswith("its void marker"), one["detail"]) for one in await own()]
    assert result[:3] == [("ACCEPTED", False, ""), ("SENT", False, ""), ("STORED", False, result[2][2])]
    assert result[3:5] == [("VOIDED", False, "ordered twice (by guest)"), ("AGAIN", True, "ordered twice (by guest)")]
    assert [(event, is_marker) for event, is_marker, _ in result[5:]] == [("SENT", True), ("STORED", True)]


async def test_a_flood_of_questions_of_one_institution_delays_no_others(inprocess: InProcess) -> None:
    hub, a, b = await two(inprocess, secure=False)
    flooder = await inprocess.local("88001", hub.port)
    await linked(a, b, flooder)
    lk0 = await submitted(inprocess, a, "S1")
    await delivered(inprocess, a, "S1")
    way, result = flooder.uplink.dial_config_for(VIRTUAL_HOST), list[str]()
    foreign = {"lk0": lk0.replace("1.10008.", "1.88001."), "nonce": "n", "target": "1.56001"}

    async def flood() -> None:
        while True:
            try:
                outcome = await request(way, flooder.clock, EXCHANGE, "trace", foreign)
                result.append(str(outcome["other"].get("unanswered")))
            except RefusedByHub as error:  # more than one institution may ask at the same time
                result.append(str(error))

    floods = [asyncio.create_task(flood()) for _ in range(12)]
    await until(lambda: len(result) > 20)
    for _ in range(5):
        outcome = await trace_of(inprocess, a, "S1")
        assert (outcome["unanswered"], "1.56001" in {one["node"] for one in outcome["events"]}) == ([], True)
    for task in floods:
        task.cancel()
    await asyncio.gather(*floods, return_exceptions=True)
    assert any(Busy.code in one or ShareUsed.code in one for one in result)


async def _has(look: Any, event: str, times: int) -> bool:
    return [one["event"] for one in await look()].count(event) == times


async def test_other_nodes_get_no_information_about_a_message(inprocess: InProcess) -> None:
    hub, a, _ = await two(inprocess, secure=False)
    other = await inprocess.local("88001", hub.port)
    await linked(a, other)
    lk0 = await submitted(inprocess, a, "S1")
    await until(lambda: hub.engine.core.counters.counts.get("forwarded"))
    way = other.uplink.dial_config_for(VIRTUAL_HOST)
    answer = await request(way, other.clock, EXCHANGE, "trace", {"lk0": lk0})
    assert answer == {"node": "2.hub", "events": []}
    with psycopg.connect(str(hub.settings.database.dsn), autocommit=True) as connection:
        connection.execute(  # a statement of an impostor about itself
            "INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, app_domain, app_type,"
            " app_subtype, app_key, digest, size, detail) VALUES (1, now(), 2, %s, %s, '1.88001', 0, '',"
            " 'd', 't', '', 'k', '', 1, '')",
            [Event.VIOLATION.value, lk0],
        )
    assert (await request(way, other.clock, EXCHANGE, "trace", {"lk0": lk0}))["events"] == []
    await until(lambda: hub.questions.has_reader("1.10008"))
    curious = {"lk0": lk0, "nonce": "n", "target": "1.56001"}
    passed_on = await request(way, other.clock, EXCHANGE, "trace", curious)
    assert (passed_on["events"], "story" in passed_on["other"]) == ([], False)
    assert NotThere.code in passed_on["other"]["unanswered"]
    own = a.uplink.dial_config_for(VIRTUAL_HOST)
    assert (await request(own, a.clock, EXCHANGE, "trace", {"lk0": lk0}))["events"]
    for arguments in ({}, {"lk0": "nonsense"}, {"lk0": 7}):
        with pytest.raises(RefusedByHub):
            await request(own, a.clock, EXCHANGE, "trace", arguments)
    with pytest.raises(RefusedByHub):
        await request(own, a.clock, "semq.none", "trace", {"lk0": lk0})


async def test_a_hub_that_is_away_is_named(inprocess: InProcess) -> None:
    hub, a, b = await two(inprocess, secure=False)
    await linked(a, b)
    await submitted(inprocess, a, "S1")
    await hub.stop()
    result = await trace_of(inprocess, a, "S1")
    assert next(one["event"] for one in result["events"]) == "ACCEPTED"
    assert [one["node"] for one in result["unanswered"]] == ["hub", "1.56001"]
    assert DialFailed.code in result["unanswered"][0]["why"]
