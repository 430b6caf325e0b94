"""The event for which a message waits, and the time of the next inquiry."""

from typing import Any

import pytest
from msgspec.structs import replace

from semq.engine.people.stuck import Surroundings
from semq.service.operations.outlook import WAITS, waits_for
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, ask, linked
from tests.waiting import until


async def side(client: Any, name: str) -> dict[str, Any]:
    answer = await ask(client, "msg.outlook", {"id": name})
    assert answer["ok"], answer
    first_side: dict[str, Any] = answer["result"]["sides"][0]
    return first_side


async def test_a_message_waits_for_the_link_then_for_its_target_and_the_next_inquiry_is_named(
    inprocess: InProcess,
) -> None:
    hub = await inprocess.hub(HUB_CONFIG)
    alone = await inprocess.start_node(inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=1)))
    client = await inprocess.client(alone)
    lk0 = (await ask(client, "msg.submit", {"target": "56001"}))["result"]["lk0"]
    assert (await side(client, lk0))["waits_for"] == "link"
    await ask(client, "msg.hold", {"id": lk0, "why": "test"})
    held = await side(client, lk0)
    assert (held["waits_for"], held["cause"]) == ("person", "HELD")

    node = await inprocess.local("88001", hub.port)
    await linked(node)
    client = await inprocess.client(node)
    lk0 = (await ask(client, "msg.submit", {"target": "56001"}))["result"]["lk0"]

    async def is_stored() -> bool:
        return bool((await side(client, lk0))["waits_for"] == "ack2")

    await until(is_stored)
    result = await side(client, lk0)
    assert result["asks_at"] > alone.engine.core.now_ms() - 60_000
    at_hub = await side(await inprocess.client(hub), lk0)
    assert (at_hub["waits_for"], at_hub["side"]) == ("target", "outbound")


INBOUND = {"side": "inbound", "save_fwd": 3, "lk1": None, "p_ack_status": "AS_INIT", "app_status": "DONE"}
OUTBOUND = {"side": "outbound", "outcome": None, "direction": "OWN", "ss_status": "SS_SENT", "target": "1.56001"}
LINKED = Surroundings(0, 0)
ALONE = Surroundings(0, 0, has_hub=False, link_up=False)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (INBOUND | {"s_ack_status": "AS_INIT"}, ("reack", True)),
        (INBOUND | {"s_ack_status": "AS_ACK"}, ("nothing", False)),
        (INBOUND | {"s_ack_status": "AS_ACK", "app_status": "NEW"}, ("application", False)),
        (OUTBOUND, ("ack", True)),
        (OUTBOUND | {"ss_status": "SS_INIT"}, ("turn", False)),
        (OUTBOUND | {"outcome": "REJECTED"}, ("nothing", False)),
        (OUTBOUND | {"submission": 7, "not_before": 0}, ("sql", False)),
        (OUTBOUND | {"submission": 7, "not_before": 1}, ("time", False)),
        (OUTBOUND | {"submission": 7, "not_before": 1, "outcome": "REFUSED"}, ("person", False)),
    ],
)
def test_every_row_waits_for_an_event_with_a_description(row: dict[str, Any], expected: tuple[str, bool]) -> None:
    result = waits_for(row, LINKED)
    assert result == expected
    assert result[0] in WAITS


@pytest.mark.parametrize(
    ("status", "direct", "expected"),
    [("SS_INIT", (), "direct"), ("SS_INIT", ("1.56001",), "turn"), ("SS_SENT", ("1.56001",), "ack2"),
     ("SS_SENT", (), "ack2")],
)  # fmt: skip
def test_a_row_of_a_node_without_a_hub_waits_for_the_direct_link_then_for_its_receiver(
    status: str, direct: tuple[str, ...], expected: str
) -> None:
    event, _ = waits_for(OUTBOUND | {"ss_status": status}, replace(ALONE, direct_nodes=direct))
    assert event == expected
    assert event in WAITS
