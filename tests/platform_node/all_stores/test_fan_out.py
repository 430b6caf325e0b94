"""Two instances of a hub: at either of them, operators get the answers of both stores."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from local_node.link.single_request import VIRTUAL_HOST, request
from local_node.node import LocalNode
from platform_node.all_stores.fan_out import FANNED
from platform_node.node import HubNode
from platform_node.operations.table import OPERATIONS
from semq.cli.checkup import running_node
from semq.cli.checkup.finding import Finding
from semq.engine.hub.carrier import StoreName
from semq.service.exchanged import ExchangedPage
from semq.store.control.cluster_tables import node_home
from semq.store.views import exchanged
from tests.cli.command import CommandResult, semq_aside
from tests.local_node.test_node import confirming, publish
from tests.platform_node.test_cluster import HubInstances, hubs_of, received, settle_homes
from tests.service.inprocess import InProcess, ask, linked, uplink_of
from tests.waiting import until
from tests.web.running import serving

HOMES: dict[str, StoreName] = {"1.10008": (1, 1), "1.56001": (2, 2), "1.88001": (2, 2)}
EACH = 3  # documents that wait in each store


async def semq_at(hub: HubNode, *words: str) -> CommandResult:
    return await semq_aside(*words, "--node", f"amqp://guest:guest@127.0.0.1:{hub.port}")


@dataclass
class HubWithTwoInstances:
    """Two instances; 88001 has sent documents to two offline institutions, whose homes are different stores."""

    hubs: HubInstances
    first: HubNode
    second: HubNode
    sender: LocalNode

    async def ask(self, hub: HubNode, operation: str, **arguments: Any) -> Any:
        answer = await ask(await self.hubs.inprocess.client(hub), operation, arguments)
        assert answer["ok"], answer
        return answer["result"]


async def set_homes(*hubs: HubNode) -> None:
    for node, (first, second) in HOMES.items():
        change = node_home.update().where(node_home.c.node == node).values(semq_id=first, semq_db_id=second)

        def run(connection: Any, change: Any = change) -> None:
            with connection.begin():
                connection.execute(change)

        await hubs[0].control(run)
    await settle_homes(*hubs)


@asynccontextmanager
async def running(inprocess: InProcess) -> AsyncIterator[HubWithTwoInstances]:
    async with hubs_of(inprocess) as hubs:
        first, second = await hubs.instance(1), await hubs.instance(2)
        await settle_homes(first, second)
        await set_homes(first, second)
        sender = await hubs.local("88001", second, first)
        await linked(sender)
        await until(lambda: "1.88001" in first.engine.sessions)
        channel = await confirming(await inprocess.client(sender))
        for target in ("10008", "56001"):
            for number in range(EACH):
                assert await publish(channel, target, b"%d" % number)
        await until(lambda: first.engine.custody.rows_by_target.get("1.10008") == EACH)
        await until(lambda: second.engine.custody.rows_by_target.get("1.56001") == EACH)
        yield HubWithTwoInstances(hubs, first, second, sender)


@pytest.fixture(scope="module")
async def instances(shared_inprocess: InProcess) -> AsyncIterator[HubWithTwoInstances]:
    """Instances for tests that only read."""
    async with running(shared_inprocess) as started:
        yield started


@pytest.fixture
async def own_instances(inprocess: InProcess) -> AsyncIterator[HubWithTwoInstances]:
    async with running(inprocess) as started:
        yield started


def by_store(rows: list[dict[str, Any]]) -> dict[str, int]:
    rows_by_store: dict[str, int] = {}
    for row in rows:
        rows_by_store[row["store"]] = rows_by_store.get(row["store"], 0) + 1
    return rows_by_store


async def test_lists_and_figures_have_the_rows_of_both_stores(instances: HubWithTwoInstances) -> None:
    for hub in (instances.first, instances.second):
        rows = await instances.ask(hub, "held.list")
        assert by_store(rows) == {"1.1": EACH, "2.2": EACH}
        assert by_store((await instances.ask(hub, "msg.list"))["rows"]) == {"1.1": EACH, "2.2": EACH}
        assert len((await instances.ask(hub, "msg.list", limit=4))["rows"]) == 4
        counted = await instances.ask(hub, "held.count")
        assert {(row["store"], row["target"], row["rows"]) for row in counted} == {
            ("1.1", "1.10008", EACH), ("2.2", "1.56001", EACH),
        }  # fmt: skip
        while not (census := await instances.ask(hub, "queue.census"))["as_of"]:
            pass  # not all stores have counted
        assert sum(pair["rows"] for pair in census["pairs"]) == 2 * EACH
        nodes = {row["node"]: row for row in await instances.ask(hub, "nodes.list")}
        assert {node: row["held"] for node, row in nodes.items()} == {"1.10008": EACH, "1.56001": EACH, "1.88001": 0}
        assert [node for node, row in nodes.items() if row["online"]] == ["1.88001"]
        assert nodes["1.88001"]["boot"] == 1
        assert [row["store"] for row in await instances.ask(hub, "hub.health")] == ["1.1", "2.2"]
    shown = await semq_at(instances.second, "held", "list")
    assert shown.status == 0
    heading, _, *_rows = shown.out.splitlines()
    assert heading.split()[-1] == "store"
    assert "2.2" in shown.out


async def test_pages_and_lists_continue_in_the_next_store(instances: HubWithTwoInstances) -> None:
    rows: list[dict[str, Any]] = []
    position: dict[str, Any] = {}
    for _ in range(10):
        page = await instances.ask(instances.second, "msg.list", limit=2, order="oldest", **position)
        rows += page["rows"]
        if page["next"] is None:
            break
        position = {name: value for name, value in page["next"].items() if value is not None}
    assert len({row["lk0"] for row in rows}) == len(rows) == 2 * EACH
    listed: list[dict[str, Any]] = []
    while batch := await instances.ask(
        instances.first, "held.list", limit=2, after=listed[-1]["after"] if listed else 0
    ):
        listed += batch
    assert [row["lk0"] for row in listed] == [row["lk0"] for row in rows]
    assert (await instances.ask(instances.first, "failed.list"))["rows"] == []


async def test_one_message_is_found_in_the_store_that_has_it(instances: HubWithTwoInstances) -> None:
    inprocess = instances.hubs.inprocess
    rows = await instances.ask(instances.first, "held.list")
    for hub in (instances.first, instances.second):
        for row in (rows[0], rows[-1]):
            shown = await instances.ask(hub, "msg.show", id=row["lk0"])
            assert (shown["store"], shown["target"]) == (row["store"], row["target"])
            traced = await instances.ask(hub, "msg.trace", id=row["lk0"], parties=True)
            assert {event["store"] for event in traced["events"] if event["node"] == "2.hub"} == {row["store"]}
            # The sender, which has its session at one instance, was asked, too.
            assert "1.88001" in {event["node"] for event in traced["events"]}
            assert (await instances.ask(hub, "stuck.explain", id=row["lk0"]))["message"]["lk0"] == row["lk0"]
    answer = await ask(await inprocess.client(instances.first), "msg.show", {"id": "10008.1.1.1.1"})
    assert answer["error"]["code"] == "SEMQ-1207"
    at_sender = await ask(
        await inprocess.client(instances.sender), "msg.trace", {"id": rows[0]["lk0"], "parties": True}
    )
    assert "STORED" in {event["event"] for event in at_sender["result"]["events"] if event["node"] == "2.hub"}


async def test_a_node_learns_which_of_its_documents_both_stores_have_taken(
    instances: HubWithTwoInstances, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanged, "ROWS_MAX", 2)  # several pages of each store
    rows = await instances.ask(instances.first, "held.list")
    sender, documents, place = instances.sender, [], ""
    for _ in range(10):
        asked = {"partner": "2.hub", "since": 0, "place": place, "nonce": "n"}
        reply = await request(
            uplink_of(sender).dial_config_for(VIRTUAL_HOST), sender.clock, "semq.ask", "exchanged", asked
        )
        page = msgspec.json.decode(reply["other"]["story"], type=ExchangedPage)
        documents += [(row.lk0, row.side) for row in page.rows]
        place = page.next
        if not place:
            break
    assert sorted(documents) == sorted((row["lk0"], "hub") for row in rows)


async def test_acts_reach_copies_in_both_stores(own_instances: HubWithTwoInstances) -> None:
    rows = await own_instances.ask(own_instances.first, "held.list")
    names = [rows[0]["lk0"], rows[-1]["lk0"]]
    answer = await own_instances.ask(own_instances.second, "held.resend", ids=names)
    assert answer["counts"] == {"resent": 2}
    answer = await own_instances.ask(own_instances.first, "msg.resend", id=names[1])
    assert (answer["lk0"], answer["counts"]) == (names[1], {"resent": 1})
    done = await semq_at(own_instances.second, "held", "refuse", "--all", "--why", "wrong batch", "--json")
    assert (done.status, done.out.strip()) == (0, f'{{"refused": {2 * EACH}}}')
    counted = await own_instances.ask(own_instances.first, "held.count")
    assert [row for row in counted if row["rows"] > row["refused"] + row["markers"]] == []


async def test_a_store_that_cannot_be_asked_is_named_everywhere(own_instances: HubWithTwoInstances) -> None:
    first, second = own_instances.first, own_instances.second
    lk0 = (await own_instances.ask(first, "held.list"))[0]["lk0"]  # in store 1.1
    found = await checks_of(second)
    assert found["store 1.1"].verdict in ("ok", "warning")
    assert found["stuck"].verdict == "ok"
    async with serving(second) as site:
        program, person = await site.program("viewer"), await site.signed_in("viewer")
        assert by_store((await program.get("/held/list")).json()) == {"1.1": EACH, "2.2": EACH}
        text = (await person.get("/held")).text
        assert "store 1.1" in text
        assert "store 2.2" in text
        assert 'role="alert"' not in text
        await first.stop()
        answer = await program.get("/held/list")
        assert (answer.status_code, answer.json()["code"]) == (503, "SEMQ-2104")
        assert by_store(answer.json()["result"]) == {"2.2": EACH}
        page = await person.get("/held")
        assert page.status_code == 200
        assert "no instance serves it" in page.text.partition('role="alert"')[2]
    check = (await checks_of(second))["store 1.1"]
    assert (check.verdict, check.detail) == ("failing", "no instance serves it")
    listed = await ask(await own_instances.hubs.inprocess.client(second), "held.list")
    assert listed["error"]["code"] == "SEMQ-2104"
    assert list(listed["error"]["facts"]) == ["store 1.1"]
    assert by_store(listed["result"]) == {"2.2": EACH}
    shown = await semq_at(second, "held", "list", "--json")
    assert shown.status == 69
    assert "store 1.1" in shown.err
    assert len(shown.out.splitlines()) == 1
    (await semq_at(second, "msg", "show", lk0)).fails(69, "SEMQ-2104", "store 1.1")
    refused = await semq_at(second, "held", "refuse", "--all", "--why", "wrong batch", "--json")
    assert (refused.status, refused.out.strip()) == (69, f'{{"refused": {EACH}}}')
    await own_instances.ask(second, "node.status")  # an operation about this instance


async def test_an_instance_that_has_opened_no_store_yet_says_so(
    instances: HubWithTwoInstances, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await instances.hubs.inprocess.client(instances.second)
    monkeypatch.setattr(instances.second.membership, "stores", list)
    for operation, arguments in (("held.list", {}), ("held.refuse", {"why": "wrong batch"}), ("queue.census", {})):
        answer = await ask(client, operation, arguments)
        assert answer["error"]["code"] == "SEMQ-2104", operation
        assert "opened none yet" in answer["error"]["facts"]["stores"]


async def checks_of(hub: HubNode) -> dict[str, Finding]:
    settings = hub.settings
    settings = settings.model_copy(update={"amqp": settings.amqp.model_copy(update={"port": hub.port})})
    return {check.check: check async for check in running_node.check(settings, 8.0)}


async def test_delivered_copies_disappear_from_the_answers_of_both_instances(
    own_instances: HubWithTwoInstances,
) -> None:
    target = await own_instances.hubs.local("10008", own_instances.second, own_instances.first)
    assert sorted(await received(target, own_instances.hubs.inprocess, EACH)) == [b"0", b"1", b"2"]
    await until(lambda: not own_instances.first.engine.custody.rows_by_target)
    for hub in (own_instances.first, own_instances.second):
        assert by_store(await own_instances.ask(hub, "held.list")) == {"2.2": EACH}


def test_each_operation_about_messages_asks_all_stores() -> None:
    prefixes = ("held.", "msg.", "stuck.", "failed.", "queue.")
    assert {row.name for row in OPERATIONS if row.name.startswith(prefixes)} <= {*FANNED}
