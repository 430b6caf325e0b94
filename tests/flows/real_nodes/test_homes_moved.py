"""Homes move between the stores of a hub while documents wait; stores are added and retired."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Never

import pytest
from sqlalchemy import Connection, func, text, update

from platform_node.errors import StoreIsRetired
from platform_node.node import HubNode
from semq.engine.hub.carrier import StoreName
from semq.store.control import cluster as control
from semq.store.control.cluster_tables import hub_instance, node_home
from semq.store.postgres.errors import StoreUnavailable
from semq.store.rows import RetiredStore
from tests.local_node.test_node import confirming, publish
from tests.platform_node.all_stores.test_fan_out import semq_at
from tests.platform_node.test_cluster import HubInstances, homes, hubs_of, received, settle_homes
from tests.service.inprocess import InProcess, ask, linked
from tests.waiting import until

NODES = ("1.10008", "1.56001", "1.88001")


def end_life(connection: Connection, life: int) -> None:
    """Let the control database show an instance as ended. ``life``: its incarnation."""
    with connection.begin():
        connection.execute(update(hub_instance).where(hub_instance.c.life == life).values(until=func.now()))


async def request(inprocess: InProcess, hub: HubNode, operation: str, **arguments: object) -> dict[str, object]:
    return dict(await ask(await inprocess.client(hub), operation, arguments))


async def set_home(hubs: HubInstances, hub: HubNode, node: str, store: StoreName, *others: HubNode) -> None:
    """Make a store the home of a node; wait until ``hub`` and ``others`` have read it."""
    answer = await request(hubs.inprocess, hub, "stores.move", store=f"{store[0]}.{store[1]}", nodes=[node])
    assert answer["ok"], answer
    await settle_homes(hub, *others)


def held(hub: HubNode, node: str) -> int:
    return hub.engine.custody.rows_by_target.get(node, 0)


async def test_a_home_moves_while_documents_wait_in_the_store_that_it_leaves(inprocess: InProcess) -> None:
    async with hubs_of(inprocess) as hubs:
        one, two = await hubs.instance(1), await hubs.instance(2)
        await settle_homes(one, two)
        await set_home(hubs, one, "1.56001", (1, 1), two)
        a = await hubs.local("10008", two)
        await linked(a)
        channel = await confirming(await inprocess.client(a))
        for number in range(5):
            assert await publish(channel, "56001", b"%d" % number, OrderKey="k")
        await until(lambda: held(one, "1.56001") == 5)
        moved = await request(inprocess, two, "stores.move", store="2.2", nodes=["56001"])
        assert moved["result"] == {"homes": 1, "moves": [{"from": "1.1", "to": "2.2", "homes": 1}]}
        await settle_homes(one, two)
        for number in range(5, 10):
            assert await publish(channel, "56001", b"%d" % number, OrderKey="k")
        await until(lambda: held(two, "1.56001") == 5)
        listed = (await request(inprocess, one, "stores.list"))["result"]
        leaving = {row["store"]: (row["held"], row["leaving"]) for row in listed}  # type: ignore[attr-defined]
        assert leaving == {"1.1": (5, 5), "2.2": (5, 0)}
        shown = await semq_at(two, "hub", "stores", "list")
        assert "5 copies, 5 for institutions with another home" in " ".join(shown.out.split())
        b = await hubs.local("56001", one)
        assert await received(b, inprocess, 10) == [b"%d" % n for n in range(10)]  # in order, across stores
        await until(lambda: not held(one, "1.56001") and not held(two, "1.56001"))
        await until(lambda: a.engine.core.counters.counts.get("delivered") == 10)
        assert (await request(inprocess, two, "stores.move", store="2.2", nodes=["56001"]))["result"]["homes"] == 0  # type: ignore[index]


async def test_a_new_store_gets_its_share_of_the_homes_and_a_store_of_weight_0_loses_all(inprocess: InProcess) -> None:
    async with hubs_of(inprocess) as hubs:
        one = await hubs.instance(1)
        assert set(homes(one).values()) == {(1, 1)}
        added = await semq_at(one, "hub", "stores", "add", "2.2", "--weight", "1000")
        assert added.status == 0
        # No instance serves store 2.2 yet.
        assert (await request(inprocess, one, "stores.balance"))["result"] == {"homes": 0, "moves": []}
        two = await hubs.instance(2)
        planned = (await request(inprocess, one, "stores.balance", dry_run=True))["result"]
        assert planned == {"homes": 3, "moves": [{"from": "1.1", "to": "2.2", "homes": 3}]}
        assert set(homes(one).values()) == {(1, 1)}
        assert (await semq_at(two, "hub", "stores", "balance")).out == "1.1 → 2.2  3 homes\n"
        await settle_homes(one, two)
        assert set(homes(one).values()) == set(homes(two).values()) == {(2, 2)}
        assert (await request(inprocess, one, "stores.balance"))["result"]["homes"] == 0  # type: ignore[index]
        await request(inprocess, one, "stores.add", store="2.2", weight=0)
        await request(inprocess, two, "stores.balance")
        await settle_homes(one, two)
        assert set(homes(one).values()) == set(homes(two).values()) == {(1, 1)}


async def test_a_store_that_is_declared_lost_is_retired_at_every_instance(inprocess: InProcess) -> None:
    async with hubs_of(inprocess) as hubs:
        one, two = await hubs.instance(1), await hubs.instance(2)
        three = await hubs.instance(3)
        await settle_homes(one, two, three)
        await set_home(hubs, one, "1.56001", (2, 2), two, three)
        a = await hubs.local("10008", one)
        await linked(a)
        channel = await confirming(await inprocess.client(a))
        assert await publish(channel, "56001", b"held in the lost store")
        await until(lambda: held(two, "1.56001") == 1)
        refused = await request(inprocess, one, "stores.retire", store="2.2", why="the disk is gone")
        assert refused["error"]["code"] == "SEMQ-1266"  # type: ignore[index]
        await two.stop()
        assert two.membership is not None
        await one.control(end_life, two.engine.core.inc)
        answer = await request(inprocess, one, "stores.retire", store="2.2", why="the disk is gone")
        assert answer["result"] == {"store": "2.2", "was_retired": False}
        await settle_homes(one, three)
        for hub in (one, three):
            assert (2, 2) in hub.engine.custody.stores.retired
            assert homes(hub)["1.56001"] in ((1, 1), (3, 3))
            states = {row["store"]: row["state"] for row in (await request(inprocess, hub, "stores.list"))["result"]}  # type: ignore[attr-defined]
            assert states == {"1.1": "in use", "2.2": "retired", "3.3": "in use"}
            assert (await request(inprocess, hub, "held.list"))["ok"]  # the retired store is not asked
        b = await hubs.local("56001", three)
        assert await received(b, inprocess, 1) == [b"held in the lost store"]  # sent again by 10008
        await until(partial(lambda node: node.engine.core.counters.counts.get("delivered") == 1, a))
        with pytest.raises(StoreIsRetired):
            await hubs.instance(2)


async def test_a_store_is_not_retired_while_its_instance_answers_on_the_carrier(inprocess: InProcess) -> None:
    async with hubs_of(inprocess) as hubs:
        one, two = await hubs.instance(1), await hubs.instance(2)
        await settle_homes(one, two)
        await cut_off(two)
        member = one.membership
        assert member is not None
        await until(lambda: (2, 2) in member.store_questions.serving)
        await one.control(end_life, two.engine.core.inc)
        refused = await request(
            inprocess, one, "stores.retire", store="2.2", why="the control database shows it as ended"
        )
        assert refused["error"]["code"] == "SEMQ-1266"  # type: ignore[index]
        assert (2, 2) not in one.engine.custody.stores.retired


async def test_an_instance_whose_store_was_retired_meanwhile_ends(inprocess: InProcess) -> None:
    async with hubs_of(inprocess) as hubs:
        one, two = await hubs.instance(1), await hubs.instance(2)
        await settle_homes(one, two)
        reconnect = await cut_off(two)
        await one.control(end_life, two.engine.core.inc)
        assert await one.control(control.retire, RetiredStore(2, 2, "operator", "the machine is lost")) is None
        reconnect()
        two.clockwork.hasten("cluster")
        async with asyncio.timeout(20):
            with pytest.raises(StoreIsRetired):
                await two.wait_failed()


async def cut_off(hub: HubNode) -> Callable[[], None]:
    """Make the control database unavailable to an instance, until the returned function is called."""
    member = hub.membership
    assert member is not None
    execute = member.execute

    async def away(*_: object, **__: object) -> Never:
        raise StoreUnavailable

    member.execute = away
    await until(lambda: not hub.clockwork.records["cluster"].running)  # a running task would report it as alive
    return lambda: setattr(member, "execute", execute)


@pytest.mark.parametrize(
    ("operation", "arguments", "code"),
    [
        ("stores.move", {"store": "9.9", "nodes": ["56001"]}, "SEMQ-2102"),
        ("stores.move", {"store": "1.1", "nodes": ["99999"]}, "SEMQ-1201"),
        ("stores.move", {"store": "1.1", "nodes": []}, "SEMQ-2102"),
        ("stores.add", {"store": "0.1"}, "SEMQ-2102"),
        ("stores.add", {"store": "1.1", "weight": -1}, "SEMQ-2102"),
        ("stores.retire", {"store": "1.1", "why": "x"}, "SEMQ-1215"),
    ],
)
async def test_wrong_requests_about_stores_are_refused(
    inprocess: InProcess, operation: str, arguments: dict[str, object], code: str
) -> None:
    async with hubs_of(inprocess) as hubs:
        one = await hubs.instance(1)
        assert (await request(inprocess, one, operation, **arguments))["error"]["code"] == code  # type: ignore[index]
        assert set(homes(one).values()) == {(1, 1)}


async def test_homes_are_not_balanced_if_no_store_takes_homes(inprocess: InProcess) -> None:
    async with hubs_of(inprocess) as hubs:
        one = await hubs.instance(1)
        await request(inprocess, one, "stores.add", store="1.1", weight=0)
        assert (await request(inprocess, one, "stores.balance"))["error"]["code"] == "SEMQ-2102"  # type: ignore[index]


async def test_a_hub_of_one_process_has_no_homes(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    assert (await request(inprocess, hub, "stores.balance"))["error"]["code"] == "SEMQ-1268"  # type: ignore[index]
    assert (await request(inprocess, hub, "stores.list"))["result"] == [{"store": "1.1", "state": "in use", "held": 0}]


async def test_homes_are_read_again_only_if_they_changed(inprocess: InProcess) -> None:
    async with hubs_of(inprocess) as hubs:
        one = await hubs.instance(1)
        all_homes, read_at = await one.control(control.homes)
        assert set(all_homes) == set(NODES)
        long_ago = update(node_home).values(since=text("now() - interval '1 hour'"))

        def age(connection: Connection) -> None:
            with connection.begin():
                connection.execute(long_ago)

        await one.control(age)
        assert (await one.control(control.homes, read_at)).homes == {}
        await one.control(control.move_homes, {"1.56001": (1, 1)})
        assert (await one.control(control.homes, read_at)).homes == {"1.56001": (1, 1)}
