"""The trace of a message: the lines of sender, hub and receiver, for these parties only."""

import asyncio
from typing import Any

import psycopg
import pytest

from local_node.errors import RefusedByPeer
from local_node.link.answers import NotTold
from local_node.link.single_request import VIRTUAL_HOST, request
from local_node.node import LocalNode
from local_node.operations.trace import EXCHANGE
from platform_node.node import HubNode
from platform_node.question_turns import ShareUsed
from platform_node.questions import NotAsked
from semq.engine.errors import NotThere
from semq.service.errors import Busy
from semq.store.rows import Event
from semq.transport.errors import DialFailed
from tests.service.inprocess import InProcess, ask, linked, uplink_of
from tests.waiting import until

Parties = tuple[HubNode, LocalNode, LocalNode]


async def submit(inprocess: InProcess, node: LocalNode, key: str, target: str = "56001") -> str:
    arguments = {"target": target, "body_base64": "eA==", "app_key": f"trade/order//{key}"}
    answer = await ask(await inprocess.client(node), "msg.submit", arguments)
    return str(answer["result"]["lk0"])


async def trace_of(inprocess: InProcess, node: LocalNode, name: str) -> dict[str, Any]:
    answer = await ask(await inprocess.client(node), "msg.trace", {"id": name, "parties": True})
    result: dict[str, Any] = answer["result"]
    return result


async def start_hub_and_two_nodes(inprocess: InProcess) -> Parties:
    hub = await inprocess.hub()
    a, b = [await inprocess.local(name, hub.port) for name in ("10008", "56001")]
    await linked(a, b)
    return hub, a, b


@pytest.fixture(scope="module")
async def parties(shared_inprocess: InProcess) -> Parties:
    """A hub and the institutions 10008 and 56001."""
    return await start_hub_and_two_nodes(shared_inprocess)


@pytest.fixture(scope="module")
async def stranger(shared_inprocess: InProcess, parties: Parties) -> LocalNode:
    """The linked institution 88001, which is no party of any message."""
    node = await shared_inprocess.local("88001", parties[0].port)
    await linked(node)
    return node


async def trace_when_delivered(inprocess: InProcess, node: LocalNode, name: str) -> dict[str, Any]:
    trace: dict[str, Any] = {}
    link = await inprocess.client(node)

    async def is_known() -> bool:
        nonlocal trace
        trace = (await ask(link, "msg.trace", {"id": name, "parties": True}))["result"]
        events = {(line["node"], line["event"]) for line in trace["events"]}
        return {("1.10008", "DELIVERED"), ("2.hub", "FORWARDED"), ("1.56001", "SENDER_ACKED")} <= events

    await until(is_known)
    return trace


async def check_traces(inprocess: InProcess, parties: Parties, key: str, *, secure: bool) -> str:
    """Check the traces of a new message at all three parties; return its LK0."""
    hub, a, b = parties
    lk0 = await submit(inprocess, a, key)
    for node, other in ((a, "1.56001"), (b, "1.10008")):
        result = await trace_when_delivered(inprocess, node, key)
        assert result["unanswered"] == []
        assert [line["at"] for line in result["events"]] == sorted(line["at"] for line in result["events"])
        passed_on = [line for line in result["events"] if line["node"] == other]
        assert {(line["via"], line["proved"]) for line in passed_on} == {("2.hub", secure)}
        assert all("via" not in line for line in result["events"] if line["node"] != other)
    at_hub = (await ask(await inprocess.client(hub), "msg.trace", {"id": lk0, "parties": True}))["result"]
    assert ({line["node"] for line in at_hub["events"]}, at_hub["unanswered"]) == ({"1.10008", "2.hub", "1.56001"}, [])
    own_trace = (await ask(await inprocess.client(a), "msg.trace", {"id": key}))["result"]
    assert "unanswered" not in own_trace
    assert all("node" not in line for line in own_trace["events"])
    return lk0


async def test_all_three_parties_report_their_events(shared_inprocess: InProcess, parties: Parties) -> None:
    await check_traces(shared_inprocess, parties, "S1", secure=False)


async def test_parties_that_cannot_be_asked_are_named_and_private_details_are_not_sent(
    inprocess: InProcess,
) -> None:
    hub, a, b = await start_hub_and_two_nodes(inprocess)
    await submit(inprocess, a, "S1")
    await trace_when_delivered(inprocess, a, "S1")
    parked = {"id": "S1", "error": "Traceback: the secrets of our application"}
    assert (await ask(await inprocess.client(b), "failed.park", parked))["ok"]
    result = await trace_of(inprocess, a, "S1")
    assert ("1.56001", "PARKED") in {(line["node"], line["event"]) for line in result["events"]}
    assert "secrets" not in str(result)
    assert "secrets" in str(await trace_of(inprocess, b, "S1"))
    assert b.settings.hub is not None
    silent = b.settings.hub.model_copy(update={"answer_partners": False})
    b.settings = b.settings.model_copy(update={"hub": silent})
    [unasked] = (await trace_of(inprocess, a, "S1"))["unanswered"]
    assert (unasked["node"], NotTold.code in unasked["why"]) == ("1.56001", True)
    await b.stop()
    [unasked] = (await trace_of(inprocess, a, "S1"))["unanswered"]
    assert (unasked["node"], NotAsked.code in unasked["why"]) == ("1.56001", True)
    await hub.stop()
    result = await trace_of(inprocess, a, "S1")
    assert result["events"][0]["event"] == "ACCEPTED"
    assert [party["node"] for party in result["unanswered"]] == ["hub", "1.56001"]
    assert DialFailed.code in result["unanswered"][0]["why"]


async def test_a_hub_can_withhold_an_answer_but_neither_alter_nor_invent_it(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await inprocess.secure_hub()
    a, b = [await inprocess.secure_local(name, hub) for name in ("10008", "56001")]
    await linked(a, b)
    await until(lambda: a.sealing is not None and a.sealing.keys.knows("1.56001"))
    await until(lambda: b.sealing is not None and b.sealing.keys.knows("1.10008"))
    lk0 = await check_traces(inprocess, (hub, a, b), "S1", secure=True)
    other_lk0 = await submit(inprocess, a, "S2")
    await trace_when_delivered(inprocess, a, "S2")
    ask_truly = hub.parts.questions.ask
    seen: list[Any] = []

    async def ask_and_falsify(node: str, question: Any) -> Any:
        answer = await ask_truly(node, question)
        seen.append(answer)
        return falsify(answer)

    def alter(answer: Any) -> Any:
        story = answer["result"]["story"].replace("RECEIVED", "REJECTED")
        return {"ok": True, "result": answer["result"] | {"story": story}}

    def remove_signature(answer: Any) -> Any:
        return {"ok": True, "result": answer["result"] | {"signature": ""}}

    def repeat_another(answer: Any) -> Any:
        return seen[0]  # a genuine answer, to another question

    def invent(answer: Any) -> Any:
        line = {"at": "soon", "side": 1, "event": [], "words": None}
        return {"ok": True, "result": {"story": str([line]), "signature": "x.y", "node": "1.10008"}}

    monkeypatch.setattr(hub.parts.questions, "ask", ask_and_falsify)
    for falsify in (alter, remove_signature, repeat_another, invent, lambda answer: answer | {"result": None, "ok": 7}):
        trace = await trace_of(inprocess, a, lk0 if falsify is not repeat_another else other_lk0)
        assert {line["node"] for line in trace["events"]} == {"1.10008", "2.hub"}
        assert [party["node"] for party in trace["unanswered"]] == ["1.56001"]


async def test_the_trace_of_a_cancelled_message_shows_its_void_marker(inprocess: InProcess) -> None:
    _, a = await inprocess.linked_pair()
    admin, name = await inprocess.client(a), {"id": "S1"}

    async def sender_lines() -> list[dict[str, Any]]:
        lines = (await ask(admin, "msg.trace", name))["result"]["events"]
        return [line for line in lines if line["side"] == "sender"]

    await submit(inprocess, a, "S1")  # its target is offline, so the hub stores it
    await until(lambda: _has_events(sender_lines, "STORED", 1))
    assert (await ask(admin, "msg.cancel", name | {"why": "ordered twice"}))["ok"]
    await until(lambda: _has_events(sender_lines, "STORED", 2))
    lines = [
        (line["event"], line["words"].startswith("its void marker"), line["detail"]) for line in await sender_lines()
    ]
    assert lines[:3] == [("ACCEPTED", False, "SaveFwd=3 Ack2=1"), ("SENT", False, ""), ("STORED", False, lines[2][2])]
    assert lines[3:5] == [("VOIDED", False, "ordered twice (by guest)"), ("AGAIN", True, "ordered twice (by guest)")]
    assert [(event, is_marker) for event, is_marker, _ in lines[5:]] == [("SENT", True), ("STORED", True)]


async def test_a_flood_of_questions_of_one_institution_delays_no_others(
    shared_inprocess: InProcess, parties: Parties, stranger: LocalNode
) -> None:
    _, a, _ = parties
    lk0 = await submit(shared_inprocess, a, "F1")
    await trace_when_delivered(shared_inprocess, a, "F1")
    config, replies = uplink_of(stranger).dial_config_for(VIRTUAL_HOST), list[str]()
    foreign = {"lk0": lk0.replace("1.10008.", "1.88001."), "nonce": "n", "target": "1.56001"}

    async def flood() -> None:
        while True:
            try:
                answer = await request(config, stranger.clock, EXCHANGE, "trace", foreign)
                replies.append(str(answer["other"].get("unanswered")))
            except RefusedByPeer as error:  # the hub refuses questions beyond the share of one institution
                replies.append(str(error))

    floods = [asyncio.create_task(flood()) for _ in range(12)]
    await until(lambda: len(replies) > 20)
    for _ in range(3):
        answer = await trace_of(shared_inprocess, a, "F1")
        assert (answer["unanswered"], "1.56001" in {line["node"] for line in answer["events"]}) == ([], True)
    for task in floods:
        task.cancel()
    await asyncio.gather(*floods, return_exceptions=True)
    assert any(Busy.code in text or ShareUsed.code in text for text in replies)


async def _has_events(read_lines: Any, event: str, times: int) -> bool:
    return [line["event"] for line in await read_lines()].count(event) == times


async def test_other_nodes_get_no_information_about_a_message(
    shared_inprocess: InProcess, parties: Parties, stranger: LocalNode
) -> None:
    hub, a, _ = parties
    lk0 = await submit(shared_inprocess, a, "O1")
    await trace_when_delivered(shared_inprocess, a, "O1")
    config = uplink_of(stranger).dial_config_for(VIRTUAL_HOST)
    answer = await request(config, stranger.clock, EXCHANGE, "trace", {"lk0": lk0})
    assert answer == {"node": "2.hub", "events": []}
    with psycopg.connect(str(hub.settings.database.dsn), autocommit=True) as connection:
        connection.execute(  # line of a violation: an impostor, 88001, has named itself as the target
            "INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, app_domain, app_type,"
            " app_subtype, app_key, digest, size, detail) VALUES (1, now(), 2, %s, %s, '1.88001', 0, '',"
            " 'd', 't', '', 'k', '', 1, '')",
            [Event.VIOLATION.value, lk0],
        )
    assert (await request(config, stranger.clock, EXCHANGE, "trace", {"lk0": lk0}))["events"] == []
    await until(lambda: hub.parts.questions.has_reader("1.10008"))
    question = {"lk0": lk0, "nonce": "n", "target": "1.56001"}
    passed_on = await request(config, stranger.clock, EXCHANGE, "trace", question)
    assert (passed_on["events"], "story" in passed_on["other"]) == ([], False)
    assert NotThere.code in passed_on["other"]["unanswered"]
    own_config = uplink_of(a).dial_config_for(VIRTUAL_HOST)
    assert (await request(own_config, a.clock, EXCHANGE, "trace", {"lk0": lk0}))["events"]
    for arguments in ({}, {"lk0": "nonsense"}, {"lk0": 7}):
        with pytest.raises(RefusedByPeer):
            await request(own_config, a.clock, EXCHANGE, "trace", arguments)
    with pytest.raises(RefusedByPeer):
        await request(own_config, a.clock, "semq.none", "trace", {"lk0": lk0})
