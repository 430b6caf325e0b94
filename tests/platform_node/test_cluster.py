"""Two instances of the hub, each with a database, and a broker between them."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from structlog.testing import capture_logs

from local_node.node import LocalNode
from platform_node.errors import ControlOfAnotherHub, StoreNumberTaken
from platform_node.node import HubNode
from semq.amqp.errors import AmqpError
from semq.amqp.events import Delivered
from semq.clock import SystemClock
from semq.pki.errors import TrustUnreadable
from semq.pki.tls import server_context
from semq.store.postgres.errors import StoreUnavailable
from semq.umx_t.address import Address, NodeType
from tests.local_node.test_node import confirming, publish
from tests.pki.people import authority, ring, trust
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, ask, linked, uplink_of
from tests.transport.pair import pair
from tests.waiting import until

CLUSTER = """
[cluster]
carrier = ["amqp://guest:guest@127.0.0.1:{port}/"]
"""


@dataclass
class HubInstances:
    """The instances of a hub."""

    inprocess: InProcess
    port: int
    control: str = ""
    sections: str = CLUSTER  #: format string: its field is the port of the carrier
    keys: Path | None = None  #: folder of the hub's keys; with it links use TLS and certificates
    starts: int = 0

    async def instance(self, number: int, hub: str = "hub", db_id: int = 0, *, waits: bool = True) -> HubNode:
        """Start an instance. The database of the first one is the control database.

        ``db_id``: number of its store, by default ``number``. ``waits``: whether to wait until the instance has joined
        the carrier.
        """
        text = HUB_CONFIG.replace('id = "hub"', f'id = "{hub}"\nsemq_id = {number}\nsemq_db_id = {db_id or number}')
        self.starts += 1  # each has a database of its own, so it needs a data folder that remembers none
        text = text.replace('data_dir = "hub"', f'data_dir = "hub{self.starts}"') + self.sections.format(port=self.port)
        if self.keys is not None:
            text = re.sub("^password = .*\n", "", text, flags=re.MULTILINE)
            text = text.replace("port = 0\n", f'port = 0\ntls = true\n[tls]\ndir = "{self.keys}"\n', 1)
        if self.control:
            text += f'control = "{self.control}"\n'
        settings = self.inprocess.settings(f"hub{number}{hub}{db_id}", text)
        node = HubNode(settings, SystemClock())
        self.inprocess.stack.push_async_callback(node.stop)
        await node.start()
        self.control = self.control or settings.database.dsn or ""
        if waits:
            await until(lambda: node.membership is not None and node.membership.carrier.is_joined)
        return node

    async def local(self, name: str, *hubs: HubNode) -> LocalNode:
        """Start a node with the addresses of these instances."""
        more = [f"amqp://127.0.0.1:{hub.port}" for hub in hubs[1:]]
        text = LOCAL_CONFIG.format(name=name, hub=hubs[0].port).replace(
            "reconnect_s_min", f"more_urls = {more}\nreconnect_s_min".replace("'", '"')
        )
        return await self.inprocess.start_node(self.inprocess.settings(name, text))


@asynccontextmanager
async def hubs_of(inprocess: InProcess, **broker_settings: Any) -> AsyncIterator[HubInstances]:
    """Run a broker as the carrier of instances."""
    async with pair(**broker_settings) as broker:
        yield HubInstances(inprocess, broker.server.port)
        await inprocess.stack.aclose()  # the nodes end before their broker


def homes(hub: HubNode) -> dict[str, tuple[int, int]]:
    assert hub.membership is not None
    return hub.membership.homes.homes


async def settle_homes(*hubs: HubNode) -> None:
    """Let every instance read all stores and homes."""
    for hub in hubs:
        assert hub.membership is not None
        await hub.membership.follow()


async def received(node: LocalNode, inprocess: InProcess, count: int) -> list[bytes]:
    """Return the bodies of ``count`` documents from a node's inbox."""
    channel = await (await inprocess.client(node)).open_channel()
    bodies: list[bytes] = []

    def on_documents(batch: list[Delivered]) -> None:
        for delivered in batch:
            bodies.append(bytes(delivered.body))
            channel.ack(delivered.delivery_tag)

    await channel.consume("semq.inbox", on_documents)
    await until(lambda: len(bodies) >= count)
    return bodies


async def test_institutions_at_two_instances_exchange_documents(inprocess: InProcess) -> None:
    async with hubs_of(inprocess) as hubs:
        first, second = await hubs.instance(1), await hubs.instance(2)
        await settle_homes(first, second)
        assert homes(first) == homes(second)
        a, b = await hubs.local("10008", first), await hubs.local("56001", second)
        await linked(a, b)
        await until(lambda: "1.56001" in first.engine.sessions and "1.10008" in second.engine.sessions)
        for sender, target in ((a, "56001"), (b, "10008")):
            channel = await confirming(await inprocess.client(sender))
            for number in range(20):
                assert await publish(channel, target, b"%d" % number, OrderKey="k")
        assert await received(b, inprocess, 20) == [b"%d" % n for n in range(20)]
        assert await received(a, inprocess, 20) == [b"%d" % n for n in range(20)]
        for node in (a, b):
            await until(partial(_has_delivered_all, node))
        answer = (await ask(await inprocess.client(second), "hub.instances", {}))["result"]
        assert sorted(row["store"] for row in answer if row["alive"]) == ["1.1", "2.2"]


def _has_delivered_all(node: LocalNode) -> bool:
    return node.engine.core.counters.counts.get("delivered") == 20


async def test_a_document_waiting_in_one_store_is_delivered_through_the_other_instance(inprocess: InProcess) -> None:
    async with hubs_of(inprocess) as hubs:
        first, second = await hubs.instance(1), await hubs.instance(2)
        await settle_homes(first, second)
        a = await hubs.local("10008", first)
        await linked(a)
        channel = await confirming(await inprocess.client(a))
        assert await publish(channel, "56001", b"waits")
        home = first if homes(first)["1.56001"] == (1, 1) else second
        other = second if home is first else first
        await until(lambda: home.engine.custody.rows_by_target.get("1.56001") == 1)
        b = await hubs.local("56001", other)
        assert await received(b, inprocess, 1) == [b"waits"]
        await until(lambda: not home.engine.custody.rows_by_target)
        await until(lambda: a.engine.core.counters.counts.get("delivered") == 1)


async def test_nodes_of_a_stopped_instance_continue_at_another_one(inprocess: InProcess) -> None:
    async with hubs_of(inprocess) as hubs:
        first, second = await hubs.instance(1), await hubs.instance(2)
        await settle_homes(first, second)
        a, b = await hubs.local("10008", first, second), await hubs.local("56001", second, first)
        await linked(a, b)
        await until(lambda: "1.10008" in second.engine.sessions)
        assert not second.engine.sessions["1.10008"].is_here
        await first.stop()
        await until(lambda: "1.10008" in second.parts.links.links)
        await linked(a, b)
        assert second.engine.sessions["1.10008"].is_here


async def test_nodes_go_to_another_instance_while_theirs_opens_its_store_without_the_control_database(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hubs_of(inprocess) as hubs:
        first, second = await hubs.instance(1), await hubs.instance(2)
        await settle_homes(first, second)
        a, b = await hubs.local("10008", second, first), await hubs.local("56001", first)
        await linked(a, b)
        assert list(second.parts.links.links) == ["1.10008"]

        async def fail(*arguments: object) -> None:
            raise StoreUnavailable(fault="the control database is away")

        with monkeypatch.context() as away:
            assert second.membership is not None
            away.setattr(second.membership, "execute", fail)
            second.store.break_off("test")
            await until(lambda: "1.10008" in first.parts.links.links)
            channel = await confirming(await inprocess.client(a))
            assert await publish(channel, "56001", b"x")
            assert await received(b, inprocess, 1) == [b"x"]
            c = await hubs.local("88001", second)
            await until(lambda: "control database" in uplink_of(c).last_error)
            assert second.engine_starts == 2
            assert not second.parts.links.links
        await linked(c)
        assert list(second.parts.links.links) == ["1.88001"]


def copy_of_10008(inprocess: InProcess, hub: HubNode) -> LocalNode:
    """Return a node of the same name on another machine, with a store of its own; it is not started yet."""
    text = LOCAL_CONFIG.format(name="10008", hub=hub.port).replace('data_dir = "10008"', 'data_dir = "copy"')
    copy = LocalNode(inprocess.settings("copy", text), SystemClock())
    inprocess.stack.push_async_callback(copy.stop)
    return copy


async def test_a_second_session_of_a_node_is_refused_at_the_other_instance(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hubs_of(inprocess) as hubs:
        first, second = await hubs.instance(1), await hubs.instance(2)
        a = await hubs.local("10008", first)
        await linked(a)
        await until(lambda: "1.10008" in second.engine.sessions)
        copy = copy_of_10008(inprocess, second)
        monkeypatch.setattr(second.registry, "note_store", lambda *_: 0)  # would refuse the copy for its store
        logins: list[Address] = []
        refuse_attachment = second.parts.links.refuse_attachment

        def note_login(node: Address) -> AmqpError | None:
            logins.append(node)
            return refuse_attachment(node)

        monkeypatch.setattr(second.parts.links, "refuse_attachment", note_login)
        await copy.start()
        await until(lambda: len(logins) > 4)
        assert "1.10008" not in second.parts.links.links
        assert a.parts.hub.link is not None


async def test_a_copy_of_a_node_with_another_store_is_refused_at_each_instance(inprocess: InProcess) -> None:
    """The original node has never logged in at the second instance."""
    async with hubs_of(inprocess) as hubs:
        first, second = await hubs.instance(1), await hubs.instance(2)
        a = await hubs.local("10008", first)
        await linked(a)
        await first.registry.write_stores()
        await a.stop()
        await until(lambda: "1.10008" not in second.engine.sessions)
        copy = copy_of_10008(inprocess, second)
        await copy.start()
        await until(lambda: "SEMQ-1250" in uplink_of(copy).last_error)
        await first.registry.rebind("1.10008")
        await linked(copy)


async def test_a_restored_control_database_gets_the_stores_that_it_lacks(inprocess: InProcess) -> None:
    """Without its row a store would not be in use: frames about its copies would not be sent to it."""
    async with hubs_of(inprocess) as hubs:
        first, second = await hubs.instance(1), await hubs.instance(2)
        assert first.membership is not None
        with psycopg.connect(hubs.control) as connection:
            rows = "SELECT semq_id, store_uuid, boot FROM hub_store ORDER BY semq_id"
            before = connection.execute(rows).fetchall()
            connection.execute("DELETE FROM hub_store")
            connection.execute("INSERT INTO hub_store (semq_id, semq_db_id, weight) VALUES (1, 1, 3)")
        await settle_homes(first, second, first)
        assert first.membership.stores() == [(1, 1), (2, 2)]
        with psycopg.connect(hubs.control) as connection:
            assert connection.execute(rows).fetchall() == before


async def test_a_home_that_was_set_long_ago_by_the_clock_of_the_control_database_is_read(inprocess: InProcess) -> None:
    async with hubs_of(inprocess) as hubs:
        first, second = await hubs.instance(1), await hubs.instance(2)
        await settle_homes(first, second)
        known = homes(second).pop("1.10008")
        with psycopg.connect(hubs.control) as connection:
            connection.execute("UPDATE node_home SET since = now() - interval '1 hour'")
        await settle_homes(second)
        assert homes(second)["1.10008"] == known


async def test_definitions_imported_at_one_instance_are_in_force_at_the_other(inprocess: InProcess) -> None:
    async with hubs_of(inprocess) as hubs:
        first, second = await hubs.instance(1), await hubs.instance(2)
        document = '[nodes."77001"]\nname = "new"\n'
        await ask(await inprocess.client(first), "definitions.import", {"document": document})
        await second.definition_operations.follow()
        await settle_homes(first, second)
        new = Address(NodeType.LOCAL, "77001")
        assert second.directory.knows(str(new))
        assert homes(second)[str(new)] == homes(first)[str(new)]


async def test_the_control_database_of_another_hub_and_a_second_database_of_a_store_are_refused(
    inprocess: InProcess,
) -> None:
    async with hubs_of(inprocess) as hubs:
        await hubs.instance(1)
        with pytest.raises(ControlOfAnotherHub):
            await hubs.instance(2, hub="other")
        with pytest.raises(StoreNumberTaken):
            await hubs.instance(1, db_id=1)


async def restart_once(inprocess: InProcess, former: HubNode) -> tuple[int, str]:
    """Start an instance again, and stop it.

    Returns how often the start found its store to be older than before, and the verdict of the check ``store``.
    """
    node = HubNode(former.settings, SystemClock())
    inprocess.stack.push_async_callback(node.stop)
    await node.start()
    checks = (await ask(await inprocess.client(node), "node.health"))["result"]["checks"]
    await node.stop()
    [verdict] = [check["verdict"] for check in checks if check["check"] == "store"]
    return node.store.counters.went_back, verdict


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


async def test_a_store_that_was_restored_while_no_process_ran_is_recognised(inprocess: InProcess) -> None:
    async with hubs_of(inprocess) as hubs:
        first, second = await hubs.instance(1), await hubs.instance(2)
        await second.stop()
        url, url_of_first = second.settings.database.dsn or "", first.settings.database.dsn or ""
        name = urlsplit(url).path[1:]
        execute(url_of_first, f"CREATE DATABASE {name}_old TEMPLATE {name}")
        assert await restart_once(inprocess, second) == (0, "ok")
        assert await restart_once(inprocess, second) == (0, "ok")
        execute(url_of_first, f"DROP DATABASE {name} WITH (FORCE)", f"ALTER DATABASE {name}_old RENAME TO {name}")
        assert await restart_once(inprocess, second) == (1, "warning")
        assert await restart_once(inprocess, second) == (0, "ok")


TLS = """
[cluster]
carrier = ["amqps://guest:guest@localhost:{{port}}/"]
trust = "{trust}"
"""


def carrier_by_tls(trusted: Path) -> str:
    return TLS.format(trust=trusted)


async def test_the_carrier_is_reached_by_tls_and_verified(inprocess: InProcess, tmp_path: Path) -> None:
    signer, stranger = authority("broker"), authority("stranger")
    keys = ring(tmp_path / "broker", signer)
    foreign = tmp_path / "foreign.pem"
    foreign.write_bytes(stranger.pem)
    async with hubs_of(inprocess, tls=server_context(trust(signer), keys)) as hubs:
        hubs.sections = carrier_by_tls(keys.trust_path)
        first, second = await hubs.instance(1), await hubs.instance(2)
        await settle_homes(first, second)
        a, b = await hubs.local("10008", first), await hubs.local("56001", second)
        await linked(a, b)
        await until(lambda: "1.56001" in first.engine.sessions and "1.10008" in second.engine.sessions)
        assert await publish(await confirming(await inprocess.client(a)), "56001", b"by TLS")
        assert await received(b, inprocess, 1) == [b"by TLS"]
        with capture_logs() as lines:
            hubs.sections = carrier_by_tls(foreign)
            third = await hubs.instance(3, waits=False)
            await until(lambda: sum(line["event"] == "carrier_away" for line in lines) >= 2)
        assert third.membership is not None
        assert not third.membership.carrier.is_joined
        assert {line["error"][:9] for line in lines if line["event"] == "carrier_away"} == {"SEMQ-4913"}


async def test_an_unreadable_file_of_authorities_is_named(inprocess: InProcess, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    async with hubs_of(inprocess) as hubs:
        for trusted in (broken, tmp_path / "missing.pem"):
            hubs.sections = carrier_by_tls(trusted)
            with pytest.raises(TrustUnreadable, match=trusted.name):
                await hubs.instance(1, waits=False)
