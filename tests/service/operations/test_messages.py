"""Lists of stuck messages, and marks of overdue ones."""

import pytest

from semq.store.views import pages
from tests.service.inprocess import LOCAL_CONFIG, InProcess, ask, uplink_of
from tests.waiting import until


async def test_a_rare_cause_is_found_after_pages_of_other_rows(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "COMPARED_MAX", 2)  # rows of a page
    text = LOCAL_CONFIG.format(name="10008", hub=1) + "overdue_s = 0.2\n"  # the hub is never reached, so documents wait
    node = await inprocess.start_node(inprocess.settings("10008", text))
    client = await inprocess.client(node)
    sent = [
        (await ask(client, "msg.submit", {"target": "56001", "app_key": f"trade/order//{number}"}))["result"]["lk0"]
        for number in range(6)
    ]
    assert (await ask(client, "msg.hold", {"id": sent[5]}))["ok"]

    async def all_overdue() -> bool:
        return len((await ask(client, "stuck.list", {"limit": 2}))["result"]["rows"]) == 2

    await until(all_overdue)
    [held] = (await ask(client, "stuck.list", {"cause": "held", "limit": 1}))["result"]["rows"]
    assert held["lk0"] == sent[5]


async def test_overdue_messages_are_marked_and_have_not_failed(inprocess: InProcess) -> None:
    text = LOCAL_CONFIG.format(name="10008", hub=1) + "overdue_s = 0.2\n"
    node = await inprocess.start_node(inprocess.settings("10008", text))
    client = await inprocess.client(node)
    lk0 = (await ask(client, "msg.submit", {"target": "56001"}))["result"]["lk0"]

    async def is_overdue() -> bool:
        (row,) = (await ask(client, "msg.list"))["result"]["rows"]
        return bool(row["overdue"])

    await until(is_overdue)
    row = (await ask(client, "msg.show", {"id": lk0}))["result"]
    assert (row["overdue"], row["outcome"], row["stuck"]["cause"]) == (True, None, "LINK_DOWN")
    assert (await ask(client, "failed.list"))["result"]["rows"] == []


async def test_a_young_message_without_a_link_is_explained_by_the_link(inprocess: InProcess) -> None:
    node = await inprocess.start_node(inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=1)))
    client = await inprocess.client(node)
    await until(lambda: bool(uplink_of(node).last_error))
    lk0 = (await ask(client, "msg.submit", {"target": "56001"}))["result"]["lk0"]
    explained = (await ask(client, "stuck.explain", {"id": lk0}))["result"]
    assert (explained["stuck"], explained["waits"]["cause"]) == (None, "LINK_DOWN")
    accepted_at = explained["message"]["accepted_at"]
    assert explained["waits"]["stuck_at"] == accepted_at + 1000 * node.settings.protocol.overdue_s
    assert explained["link"]["down_since"] <= accepted_at
    assert "SEMQ-4910" in explained["link"]["error"]

    async def pauses() -> bool:
        return bool((await ask(client, "stuck.explain", {"id": lk0}))["result"]["link"]["next_attempt_at"])

    await until(pauses)
