"""Questions about messages over direct links: without the hub, and by a partner that is no party of the message."""

from typing import Any

import pytest

from local_node.errors import RefusedByPeer
from local_node.link.answers import Answers, NotTold
from local_node.link.single_request import VIRTUAL_HOST, request
from local_node.node import LocalNode
from semq.engine.errors import NotThere
from semq.store.rows import Event
from semq.transport.dialer import DialConfig
from semq.umx_t.address import Address
from tests.local_node.link.test_direct import B, Hubless, direct_scene, ledger_details
from tests.local_node.operations.test_trace import submit, trace_of
from tests.service.inprocess import InProcess
from tests.waiting import until


async def test_a_trace_asks_the_partner_itself_while_the_hub_is_away(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await direct_scene(inprocess)
    lk0 = await submit(inprocess, scene.a, "S1")
    await until(lambda: bool(ledger_details(scene.a, Event.DELIVERED)))
    await scene.hub.stop()
    result = await trace_of(inprocess, scene.a, lk0)
    assert [party["node"] for party in result["unanswered"]] == ["hub"]
    lines = [line for line in result["events"] if line["node"] == B]
    assert {(line["via"], line["proved"]) for line in lines} == {(B, True)}
    assert "RECEIVED" in {line["event"] for line in lines}
    truly = Answers.story

    async def without_signature(answers: Answers, *question: str) -> dict[str, Any]:
        return {**await truly(answers, *question), "signature": ""}

    with monkeypatch.context() as patch:
        patch.setattr(Answers, "story", without_signature)
        unproved = (await trace_of(inprocess, scene.a, lk0))["unanswered"][-1]
    assert (unproved["node"], unproved["why"][:27]) == (B, "it gave an unproved answer:")
    hub = scene.b.settings.hub
    assert hub is not None
    silent = hub.model_copy(update={"answer_partners": False})
    scene.b.settings = scene.b.settings.model_copy(update={"hub": silent})
    result = await trace_of(inprocess, scene.a, lk0)
    assert [(party["node"], NotTold.code in party["why"]) for party in result["unanswered"]] == [
        ("hub", False),
        (B, True),
    ]


async def test_a_partner_learns_nothing_about_messages_of_others(inprocess: InProcess) -> None:
    hubless = Hubless(inprocess)
    b = await hubless.start_node("56001", '[direct."10008"]\n[direct."88001"]\n')
    dials = f'[direct."56001"]\nurls = ["amqps://127.0.0.1:{b.port}"]\n'
    a = await hubless.start_node("10008", dials)
    c = await hubless.start_node("88001", dials)
    await until(lambda: bool(a.engine.uplink.partners and c.engine.uplink.partners))
    lk0 = await submit(inprocess, a, "S1")
    await until(lambda: bool(ledger_details(a, Event.DELIVERED)))
    of_sender, of_stranger = map(dial_config_to_b, (a, c))
    answer = await request(of_sender, a.clock, "semq.ask", "trace", {"lk0": lk0, "nonce": "n"}, B)
    assert "RECEIVED" in answer["other"]["story"]
    with pytest.raises(RefusedByPeer, match=NotThere.code):
        await request(of_stranger, c.clock, "semq.ask", "trace", {"lk0": lk0, "nonce": "n"}, B)


def dial_config_to_b(node: LocalNode) -> DialConfig:
    assert node.parts.direct is not None
    config = node.parts.direct.dial_config_for(Address(1, "56001"), VIRTUAL_HOST)
    assert config is not None
    return config
