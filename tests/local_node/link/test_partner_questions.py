"""Questions about messages over direct links: with the hub away, and by a partner that the message does not concern."""

import pytest

from local_node.errors import RefusedByHub
from local_node.link.answers import NotTold
from local_node.link.hub_request import VIRTUAL_HOST, request
from semq.engine.errors import NotThere
from semq.store.rows import Event
from semq.umx_t.address import Address
from tests.local_node.link.test_direct import B, DirectScene, Hubless, scene, ways
from tests.local_node.operations.test_trace import submitted, trace_of
from tests.service.inprocess import InProcess
from tests.waiting import until

__all__ = ["scene"]  # a fixture


async def test_a_trace_asks_the_partner_itself_while_the_hub_is_away(inprocess: InProcess, scene: DirectScene) -> None:
    lk0 = await submitted(inprocess, scene.a, "S1")
    await until(lambda: bool(ways(scene.a, Event.DELIVERED)))
    await scene.hub.stop()
    result = await trace_of(inprocess, scene.a, lk0)
    assert [one["node"] for one in result["unanswered"]] == ["hub"]
    theirs = [one for one in result["events"] if one["node"] == B]
    assert {(one["via"], one["proved"]) for one in theirs} == {(B, True)}
    assert "RECEIVED" in {one["event"] for one in theirs}
    hub = scene.b.settings.hub
    assert hub is not None
    silent = hub.model_copy(update={"answer_partners": False})
    scene.b.settings = scene.b.settings.model_copy(update={"hub": silent})
    result = await trace_of(inprocess, scene.a, lk0)
    assert [(one["node"], NotTold.code in one["why"]) for one in result["unanswered"]] == [("hub", False), (B, True)]


async def test_a_partner_learns_nothing_about_messages_of_others(inprocess: InProcess) -> None:
    hubless = Hubless(inprocess)
    b = await hubless.started("56001", '[direct."10008"]\n[direct."88001"]\n')
    dials = f'[direct."56001"]\nurls = ["amqps://127.0.0.1:{b.port}"]\n'
    a = await hubless.started("10008", dials)
    c = await hubless.started("88001", dials)
    await until(lambda: bool(a.engine.uplink.partners and c.engine.uplink.partners))
    lk0 = await submitted(inprocess, a, "S1")
    await until(lambda: bool(ways(a, Event.DELIVERED)))
    found = []
    for node in (a, c):
        assert node.direct is not None
        way = node.direct.dial_config_for(Address(1, "56001"), VIRTUAL_HOST)
        assert way is not None
        found.append((node, way))
    (_, right), (_, wrong) = found
    answer = await request(right, a.clock, "semq.ask", "trace", {"lk0": lk0, "nonce": "n"}, B)
    assert "RECEIVED" in answer["other"]["story"]
    with pytest.raises(RefusedByHub, match=NotThere.code):
        await request(wrong, c.clock, "semq.ask", "trace", {"lk0": lk0, "nonce": "n"}, B)
