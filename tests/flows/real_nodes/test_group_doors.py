"""A document to a group of institutions, or to all users of one, through SQL, HTTP, AMQP and folders."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.app import Client, DocumentEvent, NodeBusy
from semq.clock import SystemClock
from semq.config import load
from semq.config.sections import FolderSection
from semq.folders.layout import Layout, read_note
from semq.folders.outcomes import OutcomeWriter
from semq.folders.outgoing import Outgoing
from semq.store.rows import Event
from tests.service.companion.reported import ConnectedStates
from tests.service.inprocess import LOCAL_CONFIG, InProcess, ask, linked
from tests.waiting import until
from tests.web.api.test_events import following
from tests.web.running import serving

DEFINITIONS = """
[nodes.56001]
users = ["desk", "sales"]
[groups.partners]
members = ["56001", "88001"]
[[agreements]]
from = ["10008"]
to = ["56001", "88001"]
"""
GROUPS = {"3.partners": ["1.56001", "1.88001"], "4.56001": ["1.56001/desk", "1.56001/sales"]}
SMALL_MAX = 2000  # size limit of 88001, in bytes
each_group = pytest.mark.parametrize(("group", "members"), GROUPS.items())


class GroupNodes(NamedTuple):
    hub: HubNode
    a: LocalNode
    b: LocalNode
    c: LocalNode

    @classmethod
    async def start(cls, inprocess: InProcess, *, secure: bool = False) -> "GroupNodes":
        """Start the nodes; wait until the first has received the definitions."""
        hub = await (inprocess.secure_hub() if secure else inprocess.hub())
        names = ("10008", "56001", "88001")
        if secure:
            a, b, c = [await inprocess.secure_local(name, hub) for name in names]
        else:
            a, b = [await inprocess.local(name, hub.port) for name in names[:2]]
            small = LOCAL_CONFIG.format(name=names[2], hub=hub.port).replace("100000", str(SMALL_MAX))
            c = await inprocess.start_node(inprocess.settings(names[2], small))
        nodes = cls(hub, a, b, c)
        await linked(nodes.a, nodes.b, nodes.c)
        answer = await ask(await inprocess.client(hub), "definitions.import", {"document": DEFINITIONS})
        assert answer["ok"], answer
        await until(lambda: nodes.a.engine.partners.groups.keys() >= GROUPS.keys())
        return nodes

    async def received(self, members: Sequence[str]) -> list[bytes]:
        """Receive and acknowledge one document at each member; return the bodies."""
        bodies: list[bytes] = []
        for member in members:
            node, _, user = member.partition("/")
            port = {"1.56001": self.b, "1.88001": self.c}[node].port
            async with Client(url_at(port)) as client, client.receive(user=user) as documents:
                async for document in documents:
                    bodies.append(bytes(document.body))
                    await document.ack()
                    break
        return bodies


@pytest.fixture(scope="module")
async def nodes(shared_inprocess: InProcess) -> GroupNodes:
    return await GroupNodes.start(shared_inprocess)


def url_at(port: int) -> str:
    return f"amqp://guest:guest@127.0.0.1:{port}"


async def members_of(inprocess: InProcess, node: LocalNode, name: str) -> list[dict[str, Any]]:
    """Return the members of a submission that the node accepts."""
    link = await inprocess.client(node)

    async def members() -> list[dict[str, Any]]:
        answer = await ask(link, "msg.show", {"id": name})
        return list(answer["result"].get("members", ())) if answer["ok"] else []

    members_shown: list[dict[str, Any]] = await until(members)
    return members_shown


async def targets(inprocess: InProcess, node: LocalNode, name: str) -> list[str]:
    """Return the targets of a submission."""
    return sorted(member["target"] for member in await members_of(inprocess, node, name))


@each_group
async def test_a_document_by_sql_reaches_all_members(
    shared_inprocess: InProcess, nodes: GroupNodes, group: str, members: list[str]
) -> None:
    with psycopg.connect(nodes.a.store.url, autocommit=True) as connection:
        row = connection.execute("SELECT semq_send(%s, 'by SQL'::bytea, token => %s)", (group, group)).fetchone()
        assert row is not None
        assert await targets(shared_inprocess, nodes.a, f"sql-{row[0]}") == members
        assert await nodes.received(members) == [b"by SQL"] * 2
        await until(lambda: status(connection, row[0]) == [("DELIVERED", None)])
        assert status(connection, group) == [("DELIVERED", None)]


async def test_the_status_by_sql_is_that_of_the_member_that_does_not_get_the_document(inprocess: InProcess) -> None:
    nodes = await GroupNodes.start(inprocess)
    await nodes.c.stop()
    await nodes.b.stop()
    body = bytes(SMALL_MAX + 1)
    with psycopg.connect(nodes.a.store.url, autocommit=True) as connection:
        row = connection.execute("SELECT semq_send('3.partners', %s, token => 'T1')", (body,)).fetchone()
        assert row is not None
        await until(lambda: status(connection, row[0]) == [("SS_ACK", None)])
        await inprocess.start_node(nodes.c.settings)

        async def is_refused() -> bool:
            outcomes = [member["outcome"] for member in await members_of(inprocess, nodes.a, f"sql-{row[0]}")]
            return outcomes == [None, "REJECTED"]

        await until(is_refused)
        assert status(connection, "T1") == [("SS_ACK", None)]
        await inprocess.start_node(nodes.b.settings)
        await until(lambda: status(connection, "T1") == [("REJECTED", "SEMQ-1203")])
        assert status(connection, row[0]) == [("REJECTED", "SEMQ-1203")]


def test_the_status_by_sql_follows_messages_that_were_sealed_again(database: str) -> None:
    """The test writes the ledger lines that ``engine.sender.resealing`` writes."""
    line = (
        "INSERT INTO semq_ledger SELECT %s, now(), 1, %s, '1.10008.1.1.1.' || %s, '1.56001', 1, '', '', '', '', '', '',"
        " 0, %s"
    )
    group = "member {} of 2 of 1.10008.1.1.1.100 to 3.partners"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO tb_0031_token VALUES ('T', '1.10008.1.1.1.100', ''), ('M', '1.10008.1.1.1.101', '')"
        )

        def add(*lines: tuple[Event, int, str]) -> None:
            for event, number, detail in lines:
                connection.execute(line, (next(numbers), int(event), number, detail))

        numbers = count(1)
        add((Event.ACCEPTED, 101, group.format(1)), (Event.ACCEPTED, 102, group.format(2)), (Event.DELIVERED, 102, ""))
        add((Event.REJECTED, 101, "SEMQ-5201 no key"))
        assert status(connection, "T") == status(connection, "M") == [("REJECTED", "SEMQ-5201")]
        for old, new in pairwise((101, 140, 150)):
            add(
                (Event.OPERATOR, old, f"continues as 1.10008.1.1.1.{new}"),
                (Event.ACCEPTED, new, "SaveFwd=3 Ack2=1, the document of"),
            )
            assert status(connection, "T") == status(connection, "M") == [("SS_INIT", None)]
        add((Event.DELIVERED, 150, ""))
        assert status(connection, "T") == status(connection, "M") == [("DELIVERED", None)]
        assert status(connection, "unknown") == []


def status(connection: psycopg.Connection, name: int | str) -> list[tuple[str, str | None]]:
    """Return state and reason of submissions, by number or token."""
    return connection.execute("SELECT state, reason_code FROM semq_status(%s)", (name,)).fetchall()


@each_group
async def test_a_document_by_http_reaches_all_members(nodes: GroupNodes, group: str, members: list[str]) -> None:
    async with serving(nodes.a) as site:
        program = await site.program("submit", "events")
        async with following(program, keys="delivered.#") as events:
            sent = await program.post(f"/documents?target={group}", content=b"by HTTP")
            assert sent.status_code == 201, sent.text
            lk0 = sent.json()["lk0"]
            while (facts := (await anext(events))["data"])["group"]["lk0"] != lk0:
                pass  # a document of another test
        assert facts["target"] in members
        number = members.index(facts["target"]) + 1
        place = {"lk0": lk0, "target": group, "member": number, "members": 2}
        assert facts["group"] == place
        listed = (await program.get(f"/documents/{lk0}")).json()
        assert sorted(member["target"] for member in listed["members"]) == members
        refused = await program.post(f"/documents?target={group[:2]}nobody", content=b"x")
        assert "SEMQ-1201" in refused.text
    assert await nodes.received(members) == [b"by HTTP"] * 2


async def test_a_document_is_sealed_for_each_member(inprocess: InProcess) -> None:
    nodes = await GroupNodes.start(inprocess, secure=True)
    link = await inprocess.client(nodes.a)
    for group, members in GROUPS.items():
        sent = (await ask(link, "msg.submit", {"target": group, "body_base64": "eA=="}))["result"]
        assert await targets(inprocess, nodes.a, sent["lk0"]) == members
    receivers = sorted(f"{each:/<8}" for members in GROUPS.values() for each in members)

    def proved(node: LocalNode) -> Iterator[tuple[str, bool]]:
        with psycopg.connect(node.store.url) as connection:
            yield from connection.execute("SELECT target || '/' || target_user, proved FROM tb_0030").fetchall()

    await until(lambda: sorted([*proved(nodes.b), *proved(nodes.c)]) == [(each, True) for each in receivers])


@each_group
async def test_events_of_members_name_the_submission(nodes: GroupNodes, group: str, members: list[str]) -> None:
    async with Client(url_at(nodes.a.port)) as client, client.events("delivered.#") as events:
        sent = await client.send(group, b"x", token=f"events {group}")
        delivered: dict[str, DocumentEvent] = {}
        async for event in events:
            if event.group is not None and event.group.lk0 == sent.lk0:
                delivered[event.target] = event
            if len(delivered) == len(members):
                break
    assert sorted(delivered) == members
    for number, member in enumerate(members, 1):
        place = delivered[member].group
        assert place is not None
        assert (place.lk0, place.target, place.member, place.members) == (sent.lk0, group, number, 2)
        assert delivered[member].token == f"events {group}"
    assert await nodes.received(members) == [b"x"] * 2


async def test_a_waiting_sender_learns_of_the_last_member_by_its_event(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semq.app.watch.QUERY_S", 3600.0)
    nodes = await GroupNodes.start(inprocess)
    await nodes.c.stop()
    async with Client(url_at(nodes.a.port)) as client:
        sent = await client.send("3.partners", b"x")
        waiting = asyncio.create_task(client.wait_for_delivery(sent.lk0, timeout_s=600))
        await until(lambda: client._watch._waiting)
        await inprocess.start_node(nodes.c.settings)
        assert (await waiting).is_delivered


@asynccontextmanager
async def folders(node: LocalNode, root: Path) -> AsyncIterator[Layout]:
    """Run the door of folders on a root folder."""

    async def changes() -> AsyncIterator[None]:
        while True:
            await asyncio.sleep(0.05)
            yield

    layout = Layout(root)
    layout.make()
    is_recording = asyncio.Event()
    async with Client(url_at(node.port)) as client, asyncio.TaskGroup() as tasks:
        recording = tasks.create_task(OutcomeWriter([layout], client, ConnectedStates().states).run(is_recording.set))
        await is_recording.wait()
        settings = FolderSection(path=root, settle_s=0)
        sending = Outgoing(layout, settings, 100_000, client, SystemClock(), ConnectedStates().states)
        running = (recording, tasks.create_task(sending.run(changes())))
        yield layout
        for task in running:
            task.cancel()


def put_file(layout: Layout, group: str, body: bytes) -> None:
    (layout.out / group).mkdir()
    (layout.out / group / "a.xml").write_bytes(body)


def sent_note(layout: Layout, group: str) -> dict[str, Any]:
    """Return the note of the sent file; empty before it was sent. Its folder in ``sent`` begins with its day."""
    return next((dict(read_note(file)) for file in layout.sent.glob(f"*/{group}/a.xml")), {})


@each_group
async def test_a_file_reaches_all_members(nodes: GroupNodes, tmp_path: Path, group: str, members: list[str]) -> None:
    async with folders(nodes.a, tmp_path / "door") as layout:
        put_file(layout, group, b"by folder")
        await until(lambda: sent_note(layout, group).get("outcome"))
        note = sent_note(layout, group)
        assert note["outcome"] == "DELIVERED"
        assert {name: member["outcome"] for name, member in note["members"].items()} == dict.fromkeys(
            members, "DELIVERED"
        )
    assert await nodes.received(members) == [b"by folder"] * 2


async def test_documents_wait_for_a_hub_that_is_away_at_the_start_of_the_node(
    inprocess: InProcess, tmp_path: Path
) -> None:
    """The node does not know the group yet."""
    nodes, members = await GroupNodes.start(inprocess), GROUPS["3.partners"]
    port = nodes.hub.port
    await nodes.a.stop()
    await nodes.hub.stop()
    a = await inprocess.start_node(nodes.a.settings)
    with psycopg.connect(a.store.url) as connection:
        connection.execute("SELECT semq_send('3.partners', 'by SQL'::bytea)")
    async with folders(a, tmp_path / "door") as layout:
        put_file(layout, "3.partners", b"by folder")
        async with Client(url_at(a.port)) as client:
            with pytest.raises(NodeBusy, match="SEMQ-1237"):
                await client.send("3.partners", b"x", timeout_s=2)
        file = inprocess.folder / "hub.toml"
        file.write_text(file.read_text().replace("port = 0", f"port = {port}"))
        hub = HubNode(load(file, {}), SystemClock())
        inprocess.stack.push_async_callback(hub.stop)
        await hub.start()
        await until(lambda: sent_note(layout, "3.partners").get("outcome") == "DELIVERED")
    bodies = await GroupNodes(hub, a, nodes.b, nodes.c).received([*members, *members])
    assert sorted(bodies) == [b"by SQL"] * 2 + [b"by folder"] * 2


async def test_a_file_to_a_group_fails_with_the_member_that_refuses_it(nodes: GroupNodes, tmp_path: Path) -> None:
    async with folders(nodes.a, tmp_path / "door") as layout:
        put_file(layout, "3.partners", bytes(SMALL_MAX + 1))
        failed = layout.failed / "3.partners" / "a.xml"
        await until(lambda: read_note(failed))
        note = read_note(failed)
        assert note["outcome"] == "REJECTED"
        assert "SEMQ-1203" in note["reason"]
        assert {name: member["outcome"] for name, member in note["members"].items()} == {
            "1.56001": "DELIVERED",
            "1.88001": "REJECTED",
        }
    assert await nodes.received(["1.56001"]) == [bytes(SMALL_MAX + 1)]
