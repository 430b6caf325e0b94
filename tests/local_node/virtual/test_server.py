"""Many institutions in one process: documents in every direction, isolation, changes while it runs, rest."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from functools import partial
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from local_node.virtual.server import VirtualServer, read_server
from semq.amqp.errors import AccessRefused, InvalidPath, NotAllowed
from semq.app import Client
from semq.clock import SystemClock
from semq.config import load
from semq.config.institutions import database_url
from semq.store.embedded.server import EmbeddedPostgres
from tests.local_node.link.test_direct import Hubless
from tests.local_node.virtual.hosting import HUB, Hosted, Hosting, databases, hosting
from tests.service.inprocess import LOCAL, InProcess, ask, linked
from tests.waiting import until


async def up(found: Hosting, *names: str) -> None:
    """Wait until institutions have their links."""
    await linked(*map(found.node, names))


async def test_documents_in_every_direction(inprocess: InProcess) -> None:
    async with hosting(inprocess) as found:
        a, b, c, alone, _ = found.names
        text = LOCAL.format(name=alone, hub=found.hub.port).replace(f"pass-{alone}", alone)
        single = await inprocess.started(inprocess.settings(alone, text))
        await up(found, a, b, c)
        await linked(single)
        for source, target in ((a, b), (b, c), (c, a), (a, alone)):
            await found.arrived(single if target == alone else target, await found.send(source, target))
        app = await inprocess.client(single)
        answer = await ask(app, "msg.submit", {"target": c, "body_base64": "eA=="})
        await found.arrived(c, answer["result"]["lk0"])
        assert {row["state"] for row in (await found.listed()).values()} == {"serving"}


REFUSED = (
    # virtual host, user, password
    ("{0}", "erp", "wrong"),
    ("{0}", "guest", "guest"),  # users are configured there
    ("{1}", "erp", "secret"),  # a user of another institution
    ("{1}/other", "guest", "guest"),
    ("nobody", "guest", "guest"),
    ("", "erp", "secret"),
)


async def test_a_user_logs_in_at_its_own_institution_only(inprocess: InProcess) -> None:
    async with hosting(inprocess, ('amqp.users.erp = "secret"', "")) as found:
        assert (await found.client(found.names[0], "erp", "secret")).is_open
        for host, user, password in REFUSED:
            with pytest.raises((AccessRefused, NotAllowed, InvalidPath)):
                await found.client(host.format(*found.names), user, password)


async def test_a_fault_of_one_institution_does_not_delay_others(inprocess: InProcess) -> None:
    wrong = "protocol.windows = 3"
    missing = 'database.url = "postgresql://127.0.0.1:1/none"'
    async with hosting(inprocess, ("", wrong, missing, "")) as found:
        a, bad, away, b, _ = found.names
        await up(found, a, b)
        await found.arrived(b, await found.send(a, b))
        rows = await found.listed()
        assert {name: row["state"] for name, row in rows.items()} == {
            a: "serving", b: "serving", bad: "failing", away: "failing",
        }  # fmt: skip
        assert "SEMQ-2011" in rows[bad]["error"]
        assert "protocol.windows" in rows[bad]["error"]
        assert "SEMQ-3001" in rows[away]["error"]
        # The error in the file is corrected.
        found.write({a: "", bad: "", away: "", b: ""})
        result = await found.asked("/", "server.reload")
        assert (result["added"], result["removed"]) == ([], [])
        await until(lambda: all(one.node is not None for one in found.server.institutions.values()))
        await up(found, bad, away)
        await found.arrived(away, await found.send(bad, away))


async def test_a_database_that_does_not_answer_stops_its_institution_only(inprocess: InProcess) -> None:
    async with hosting(inprocess) as found:
        a, stuck, b, *_ = found.names
        await up(found, a, stuck, b)
        with psycopg.connect(database_url(found.database, stuck)) as holder:
            holder.execute("LOCK TABLE tb_0031, tb_0030 IN ACCESS EXCLUSIVE MODE")
            client = await found.client(stuck)
            hanging = asyncio.ensure_future(ask(client, "msg.submit", {"target": a, "body_base64": "eA=="}))
            looking = [asyncio.ensure_future(ask(client, "msg.list")) for _ in range(20)]
            for _ in range(5):
                await found.arrived(b, await found.send(a, b))
            assert not hanging.done()
            holder.rollback()
        await found.arrived(a, (await hanging)["result"]["lk0"])
        await asyncio.gather(*looking)


async def test_an_institution_that_floods_does_not_stop_others(inprocess: InProcess) -> None:
    """Programs of one institution send as fast as they can to an absent one; another institution's documents arrive."""
    async with hosting(inprocess) as found, asyncio.TaskGroup() as programs:
        flooding, b, c, _, absent = found.names
        await up(found, flooding, b, c)
        accepted: list[str] = []

        async def flood() -> None:
            port = found.server.host.port.listener.port
            async with Client(f"amqp://guest:guest@127.0.0.1:{port}/{flooding}") as client:
                while True:
                    sending = [client.send(absent, bytes(16 << 10)) for _ in range(50)]
                    accepted.extend(sent.lk0 for sent in await asyncio.gather(*sending))

        def enough(least: int) -> bool:
            return len(accepted) >= least

        floods = [programs.create_task(flood()) for _ in range(3)]
        for number in range(1, 11):
            await until(partial(enough, 100 * number))
            await found.arrived(c, await found.send(b, c))
            row = (await found.listed())[flooding]
            assert row["memory_bytes"] <= row["memory_max_bytes"]
        for task in floods:
            task.cancel()
        await asyncio.wait(floods)
        with psycopg.connect(database_url(found.database, flooding)) as connection:
            stored = connection.execute("SELECT count(*) FROM tb_0031").fetchone()
        assert stored is not None
        assert stored[0] >= len(accepted)


async def test_an_institution_has_its_own_limits(inprocess: InProcess) -> None:
    async with hosting(inprocess, ("amqp.max_connections = 2", "")) as found:
        a, b, *_ = found.names
        for _ in range(2):
            await found.client(a)
        with pytest.raises(NotAllowed):
            await found.client(a)
        await found.client(b)
        assert found.node(a).server.counts()["connections_refused"] == 1
        assert (await found.listed())[a]["memory_max_bytes"] == 64 << 20


async def test_institutions_come_and_go_while_it_runs(inprocess: InProcess) -> None:
    async with hosting(inprocess) as found:
        a, b, gone, new, _ = found.names
        await up(found, a, b, gone)
        link, boot = found.node(a).uplink.link, found.node(a).recovered.boot
        found.write({a: "protocol.overdue_s = 7", b: "", new: ""})
        result = await found.asked("/", "server.reload")
        assert (result["added"], result["removed"], result["failing"]) == ([new], [gone], {})
        assert result["changed"] == {a: {"changed": ["protocol.overdue_s"]}}
        await up(found, new)
        await found.arrived(new, await found.send(a, new))
        assert found.node(a).uplink.link is link
        with pytest.raises((NotAllowed, InvalidPath)):
            await found.client(gone)
        # Documents that arrive meanwhile are delivered after its return.
        lk0 = await found.send(a, gone)
        found.write({a: "", b: "", new: "", gone: ""})
        assert (await found.asked("/", "server.reload"))["added"] == [gone]
        await found.arrived(gone, lk0)
        await found.asked("/", "server.restart", institution=a)
        await until(lambda: found.server.institutions[a].node is not None and found.node(a).recovered.boot == boot + 1)


async def test_a_file_that_cannot_be_read_changes_nothing(inprocess: InProcess) -> None:
    async with hosting(inprocess, ("",)) as found:
        found.server.file.write_text("[server\n")
        answer = await ask(await found.client("/"), "server.reload")
        assert answer["error"]["code"] == "SEMQ-2010"
        assert list(found.server.institutions) == [found.names[0]]


def connections(found: Hosting, name: str) -> int:
    with psycopg.connect(found.database) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [f"semq_{name}"]
        ).fetchone()
    assert row is not None
    return int(row[0])


async def test_an_institution_without_work_has_no_connection(inprocess: InProcess) -> None:
    async with hosting(inprocess, options="rest_s = 0.3") as found:
        a, b, c, *_ = found.names
        await up(found, a, b, c)
        for _ in range(3):
            await until(lambda: all(found.node(name).store.state == "rest" for name in (a, b, c)))
            await until(lambda: not any(connections(found, name) for name in (a, b, c)))
            before = found.node(a).engine_starts
            await found.arrived(b, await found.send(a, b))
            assert found.node(a).engine_starts == before


async def test_a_store_that_was_opened_for_a_poll_rests_soon(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semq.store.postgres.store.POLLED_S", 0.05)
    async with hosting(inprocess, options="rest_s = 3600") as found:
        a, b, *_ = found.names
        await up(found, a, b)
        store, units = found.node(a).store, found.node(a).store.counters
        await until(store.rest)
        before = units.read_only
        found.node(a).submissions.poll()
        await until(lambda: units.read_only > before and store.state == "rest")
        await found.arrived(b, await found.send(a, b))
        assert store.state == "open"


async def test_the_login_of_a_partner_opens_no_resting_store(inprocess: InProcess) -> None:
    async with hosting(inprocess, ("", ""), options="rest_s = 3600") as found:
        a, b, new, *_ = found.names
        await up(found, a, b)
        node = found.node(a)
        await until(node.store.rest)
        before = node.store.counters.units
        found.write({a: "", b: "", new: ""})
        await found.asked("/", "server.reload")
        await until(lambda: node.engine.partners.online.get(f"1.{new}"))
        await until(lambda: node.uplink.intake.frames_under_way == 0)
        assert (node.store.state, node.store.counters.units) == ("rest", before)


async def test_a_resting_store_that_was_taken_over_stays_with_its_new_owner(inprocess: InProcess) -> None:
    async with hosting(inprocess, ("", ""), options="rest_s = 0.3") as found:
        a, b, *_ = found.names
        await up(found, a, b)
        await until(lambda: found.node(a).store.state == "rest")
        with psycopg.connect(database_url(found.database, a)) as connection:
            connection.execute("UPDATE store_lease SET epoch = epoch + 1, owner = 'a b c d', until = now() + '1 h'")
        client = await found.client(a)
        asking = asyncio.ensure_future(ask(client, "msg.submit", {"target": b, "body_base64": "eA=="}))
        await until(lambda: found.server.institutions[a].node is None)
        asking.cancel()  # the answer is a refusal, unless the connection ends before it
        with psycopg.connect(database_url(found.database, a)) as connection:
            assert connection.execute("SELECT count(*) FROM tb_0031").fetchone() == (0,)
        assert (await found.listed())[b]["state"] == "serving"


async def test_fewer_connections_than_institutions(inprocess: InProcess) -> None:
    async with hosting(inprocess, options="connections = 1") as found:
        a, b, c, *_ = found.names
        await up(found, a, b, c)
        for source, target in ((a, b), (b, c), (c, a)) * 2:
            await found.arrived(target, await found.send(source, target))
            assert found.server.host.connections.taken <= 1


async def test_a_revoked_certificate_ends_one_link(inprocess: InProcess) -> None:
    async with hosting(inprocess, secure=True) as found:
        a, revoked, b, *_ = found.names
        await up(found, a, revoked, b)
        operator = await inprocess.client(found.hub)
        await ask(operator, "cert.revoke", {"which": revoked, "why": "lost"})
        await until(lambda: "ACCESS_REFUSED" in found.node(revoked).uplink.last_error)
        await found.arrived(b, await found.send(a, b))
        rows = await found.listed()
        assert {name: row["link"] for name, row in rows.items()} == {a: "up", revoked: "down", b: "up"}
        assert "ACCESS_REFUSED" in rows[revoked]["error"]
        waiting = await found.send(a, revoked)
        await inprocess.enrol(found.node(revoked).settings, found.hub)
        await found.node(revoked)._maintain_certificate()  # as its job does, every few seconds
        await found.arrived(revoked, waiting)


WITHOUT_HUB = """
[server]
id = "east"
data_dir = "east"
[database]
url = "{database}"
[amqp]
port = 0
[institutions."{name}".direct."56001"]
urls = ["amqps://127.0.0.1:{port}"]
"""


async def test_an_institution_without_a_hub_dials_its_partner_and_misses_no_link(inprocess: InProcess) -> None:
    hubless, name = Hubless(inprocess), uuid4().hex[:8]
    partner = await hubless.started("56001", f'[direct."{name}"]\n')
    file = inprocess.folder / "server.toml"
    with databases(inprocess, [name]) as database:
        file.write_text(WITHOUT_HUB.format(database=database, name=name, port=partner.port))
        hubless.certify(load(file, {}, name))
        found = Hosted(inprocess, VirtualServer(read_server(file), file, {}, SystemClock()))
        try:
            await found.server.start()
            await until(lambda: [str(one) for one in found.node(name).engine.uplink.partners] == ["1.56001"])
            row = (await found.listed())[name]
            assert (row["state"], row["link"], row["error"]) == ("serving", "none", "")
            await found.arrived(partner, await found.send(name, "56001"))
        finally:
            await found.server.stop()


FILE = """
[server]
id = "east"
data_dir = "east"
rest_s = 0.5
[amqp]
port = 0
[hub]
url = "amqp://127.0.0.1:{hub}"
reconnect_s_max = 1
[protocol]
inquiry_s = 0.5
[log]
level = "error"
[institutions.a]
hub.password = "a"
"""
MORE = '[institutions.b]\nhub.password = "b"\n'


async def started(file: Path) -> tuple[Process, str]:
    """The process, and the address that it serves."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "semq.cli", "server", "run", "--config", str(file), stdin=PIPE, stdout=PIPE
    )
    assert program.stdout is not None
    line = (await program.stdout.readline()).decode()
    assert line.startswith("ready "), line
    return program, line.split()[1]


async def test_a_server_that_is_killed_loses_nothing(inprocess: InProcess) -> None:
    hub = await inprocess.hub(HUB + "".join(f'[nodes.{name}]\npassword = "{name}"\n' for name in "ab"))
    file = inprocess.folder / "server.toml"
    file.write_text(FILE.format(hub=hub.port))
    program, address = await started(file)
    try:
        async with Client(f"amqp://guest:guest@{address}", patience_s=30) as server:
            file.write_text(FILE.format(hub=hub.port) + MORE)
            program.send_signal(signal.SIGHUP)

            async def both_serve() -> bool:
                rows = await server.request("server.list", {}, timeout_s=30)
                return [row["state"] for row in rows] == ["serving", "serving"]

            await until(both_serve)
        sent = []
        async with Client(f"amqp://guest:guest@{address}/a", patience_s=30) as client:
            for _ in range(20):
                document = {"target": "b", "body_base64": "eA=="}
                sent.append((await client.request("msg.submit", document, timeout_s=30))["lk0"])
        program.kill()
        await program.wait()
        program, address = await started(file)
        async with Client(f"amqp://guest:guest@{address}/b", patience_s=30) as client:

            async def all_there() -> bool:
                rows = await client.request("msg.list", {}, timeout_s=30)
                return sorted(row["lk0"] for row in rows) == sorted(sent)

            await until(all_there)
        program.terminate()
        assert await program.wait() == 0
        assert EmbeddedPostgres(inprocess.folder / "east").pid is None
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
        await asyncio.to_thread(EmbeddedPostgres(inprocess.folder / "east").stop)
