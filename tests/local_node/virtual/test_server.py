"""Many institutions in one process: documents in every direction, isolation, changes at run time, resting stores."""

import asyncio
import signal
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from local_node.virtual.server import VirtualServer, read_server
from semq.amqp.errors import AccessRefused, InvalidPath, NotAllowed
from semq.app import Client
from semq.clock import SystemClock
from semq.config import load
from semq.config.institutions import database_url
from semq.installation.empty_database import copy_empty_database
from semq.store.embedded.server import EmbeddedPostgres
from tests.depth import deeper
from tests.local_node.link.test_direct import Hubless
from tests.local_node.virtual.hosting import HUB, RunningInstallation, RunningServer, databases, hosting
from tests.prepared.client import PreparedProcess, start_prepared
from tests.service.inprocess import LOCAL_CONFIG, InProcess, ask, linked, uplink_of
from tests.waiting import until


async def until_linked(hosted: RunningInstallation, *names: str) -> None:
    await linked(*map(hosted.node, names))


async def test_documents_arrive_in_every_direction_over_one_database_connection(inprocess: InProcess) -> None:
    async with hosting(inprocess, options="connections = 1") as hosted:
        a, b, c, alone, _ = hosted.names
        text = LOCAL_CONFIG.format(name=alone, hub=hosted.hub.port).replace(f"pass-{alone}", alone)
        single = await inprocess.start_node(inprocess.settings(alone, text))
        await until_linked(hosted, a, b, c)
        await linked(single)
        for source, target in ((a, b), (b, c), (c, a), (a, alone)):
            await hosted.wait_arrived(single if target == alone else target, await hosted.send(source, target))
            assert hosted.server.host.connections.taken <= 1
        app = await inprocess.client(single)
        answer = await ask(app, "msg.submit", {"target": c, "body_base64": "eA=="})
        await hosted.wait_arrived(c, answer["result"]["lk0"])
        assert {row["state"] for row in (await hosted.listed()).values()} == {"serving"}


REFUSED = (
    # virtual host, user, password
    ("{0}", "erp", "wrong"),
    ("{0}", "guest", "guest"),  # the institution has configured users, so there is no default user
    ("{1}", "erp", "secret"),  # a user of another institution
    ("{1}/other", "guest", "guest"),
    ("nobody", "guest", "guest"),
    ("", "erp", "secret"),
)


async def test_an_institution_has_its_own_users_and_limits(inprocess: InProcess) -> None:
    async with hosting(inprocess, ('amqp.users.erp = "secret"', "amqp.max_connections = 2", "")) as hosted:
        assert (await hosted.client(hosted.names[0], "erp", "secret")).is_open
        for host, user, password in REFUSED:
            with pytest.raises((AccessRefused, NotAllowed, InvalidPath)):
                await hosted.client(host.format(*hosted.names), user, password)
        _, limited, other, *_ = hosted.names
        for _ in range(2):
            await hosted.client(limited)
        with pytest.raises(NotAllowed):
            await hosted.client(limited)
        await hosted.client(other)
        assert hosted.node(limited).server.figures().connections_refused == 1
        assert (await hosted.listed())[limited]["memory_max_bytes"] == 64 << 20


async def test_a_fault_of_one_institution_does_not_delay_others(inprocess: InProcess) -> None:
    wrong = "protocol.windows = 3"
    missing = 'database.url = "postgresql://127.0.0.1:1/none"'
    async with hosting(inprocess, ("", wrong, missing, "")) as hosted:
        a, bad, away, b, _ = hosted.names
        await until_linked(hosted, a, b)
        await hosted.wait_arrived(b, await hosted.send(a, b))
        expected = {a: "serving", b: "serving", bad: "failing", away: "failing"}

        async def with_expected_states() -> Any:
            rows = await hosted.listed()
            return rows if {name: row["state"] for name, row in rows.items()} == expected else None

        rows = await until(with_expected_states)  # a failing institution is "starting" during each new attempt
        assert "SEMQ-2011" in rows[bad]["error"]
        assert "protocol.windows" in rows[bad]["error"]
        assert "SEMQ-3001" in rows[away]["error"]
        # Both faults are corrected in the file.
        hosted.write({a: "", bad: "", away: "", b: ""})
        result = await hosted.ask("/", "server.reload")
        assert (result["added"], result["removed"]) == ([], [])
        await until(lambda: all(institution.node is not None for institution in hosted.server.institutions.values()))
        await until_linked(hosted, bad, away)
        await hosted.wait_arrived(away, await hosted.send(bad, away))


async def check_with_locked_database(hosted: RunningInstallation, stuck: str, a: str, b: str) -> None:
    """Check that documents from A arrive at B while the tables of institution ``stuck`` are locked."""
    with psycopg.connect(database_url(hosted.database, stuck)) as holder:
        holder.execute("LOCK TABLE tb_0031, tb_0030 IN ACCESS EXCLUSIVE MODE")
        client = await hosted.client(stuck)
        hanging = asyncio.ensure_future(ask(client, "msg.submit", {"target": a, "body_base64": "eA=="}))
        reading = [asyncio.ensure_future(ask(client, "msg.list")) for _ in range(20)]
        for _ in range(5):
            await hosted.wait_arrived(b, await hosted.send(a, b))
        assert not hanging.done()
        holder.rollback()
    await hosted.wait_arrived(a, (await hanging)["result"]["lk0"])
    await asyncio.gather(*reading)


async def test_neither_a_stuck_database_nor_a_flood_of_one_institution_stops_others(inprocess: InProcess) -> None:
    """The flood: programs of an institution send as fast as they can to an absent one."""
    async with hosting(inprocess) as hosted, asyncio.TaskGroup() as programs:
        flooding, b, c, _, absent = hosted.names
        await until_linked(hosted, flooding, b, c)
        await check_with_locked_database(hosted, flooding, b, c)
        accepted: list[str] = []

        async def flood() -> None:
            port = hosted.server.host.port.listener.port
            async with Client(f"amqp://guest:guest@127.0.0.1:{port}/{flooding}") as client:
                while True:
                    sending = [client.send(absent, bytes(16 << 10)) for _ in range(50)]
                    accepted.extend(sent.lk0 for sent in await asyncio.gather(*sending))

        def has_accepted(least: int) -> bool:
            return len(accepted) >= least

        floods = [programs.create_task(flood()) for _ in range(3)]
        for number in range(1, 1 + deeper(2, 10)):
            await until(partial(has_accepted, deeper(50, 100) * number))
            await hosted.wait_arrived(c, await hosted.send(b, c))
            row = (await hosted.listed())[flooding]
            assert row["memory_bytes"] <= row["memory_max_bytes"]
        for task in floods:
            task.cancel()
        await asyncio.wait(floods)
        with psycopg.connect(database_url(hosted.database, flooding)) as connection:
            stored = connection.execute("SELECT count(*) FROM tb_0031").fetchone()
        assert stored is not None
        assert stored[0] >= len(accepted)


async def test_the_database_of_one_institution_is_away_while_the_others_send(
    inprocess: InProcess, tmp_path: Path
) -> None:
    own = EmbeddedPostgres(tmp_path / "own")
    copy_empty_database(tmp_path / "own")
    own.start()
    try:
        url = own.url_of("semq", tcp=True)
        async with hosting(inprocess, (f'database.url = "{url}"', "", "")) as hosted:
            away, b, c, *_ = hosted.names
            await until_linked(hosted, away, b, c)
            await hosted.wait_arrived(b, await hosted.send(away, b))
            own.stop(5.0)
            waiting = []
            for _ in range(3):
                waiting.append(await hosted.send(b, away))
                await hosted.wait_arrived(c, await hosted.send(b, c))
                await hosted.wait_arrived(b, await hosted.send(c, b))
                client = await hosted.client(away)
                answer = await ask(client, "msg.submit", {"target": b, "body_base64": "eA=="})
                assert (answer["error"]["code"], answer["error"]["retry"]) == ("SEMQ-3001", True)
            row = (await hosted.listed())[away]
            assert (row["state"], row["database"], row["error"][:9]) == ("failing", "lost", "SEMQ-3001")
            assert hosted.server.counts() == {"all": 3, "serving": 2, "failing": 1}
            own.start()
            for lk0 in waiting:
                await hosted.wait_arrived(away, lk0)
            await hosted.wait_arrived(b, await hosted.send(away, b))
    finally:
        own.stop(5.0)


async def test_institutions_are_added_and_removed_while_the_server_runs(inprocess: InProcess) -> None:
    async with hosting(inprocess) as hosted:
        a, b, removed, new, _ = hosted.names
        await until_linked(hosted, a, b, removed)
        link, boot = hosted.node(a).parts.hub.link, hosted.node(a).recovered.boot
        # A file that cannot be read changes nothing.
        hosted.server.file.write_text("[server\n")
        answer = await ask(await hosted.client("/"), "server.reload")
        assert answer["error"]["code"] == "SEMQ-2010"
        assert list(hosted.server.institutions) == [a, b, removed]
        hosted.write({a: "protocol.overdue_s = 7", b: "", new: ""})
        result = await hosted.ask("/", "server.reload")
        assert (result["added"], result["removed"], result["failing"]) == ([new], [removed], {})
        assert result["changed"] == {a: {"changed": ["protocol.overdue_s"]}}
        await until_linked(hosted, new)
        await hosted.wait_arrived(new, await hosted.send(a, new))
        assert hosted.node(a).parts.hub.link is link
        with pytest.raises((NotAllowed, InvalidPath)):
            await hosted.client(removed)
        # A document for a removed institution is delivered when the institution is added again.
        lk0 = await hosted.send(a, removed)
        hosted.write({a: "", b: "", new: "", removed: ""})
        assert (await hosted.ask("/", "server.reload"))["added"] == [removed]
        await hosted.wait_arrived(removed, lk0)
        with pytest.raises(AssertionError, match="This server has no such institution"):
            await hosted.ask("/", "server.restart", institution="99")
        await hosted.ask("/", "server.restart", institution=a)
        await until(
            lambda: hosted.server.institutions[a].node is not None and hosted.node(a).recovered.boot == boot + 1
        )


def connection_count(hosted: RunningInstallation, name: str) -> int:
    with psycopg.connect(hosted.database) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [f"semq_{name}"]
        ).fetchone()
    assert row is not None
    return int(row[0])


async def test_an_institution_without_work_has_no_connection_and_notices_a_new_owner_of_its_store(
    inprocess: InProcess,
) -> None:
    async with hosting(inprocess, options="rest_s = 0.3") as hosted:
        a, b, c, *_ = hosted.names
        await until_linked(hosted, a, b, c)
        for _ in range(2):
            await until(lambda: all(hosted.node(name).store.state == "rest" for name in (a, b, c)))
            await until(lambda: not any(connection_count(hosted, name) for name in (a, b, c)))
            before = hosted.node(a).engine_starts
            await hosted.wait_arrived(b, await hosted.send(a, b))
            assert hosted.node(a).engine_starts == before
        # Another process takes the resting store over, and keeps it.
        await until(lambda: hosted.node(a).store.state == "rest")
        with psycopg.connect(database_url(hosted.database, a)) as connection:
            rows = connection.execute("SELECT count(*) FROM tb_0031").fetchone()
            other_process = f"1.{a}.1.1 host f00 -"
            connection.execute(
                "UPDATE store_lease SET epoch = epoch + 1, owner = %s, until = now() + '1 h'", (other_process,)
            )
        client = await hosted.client(a)
        asking = asyncio.ensure_future(ask(client, "msg.submit", {"target": b, "body_base64": "eA=="}))
        await until(lambda: hosted.server.institutions[a].node is None)
        asking.cancel()  # the answer is a refusal, unless the connection ends before it
        with psycopg.connect(database_url(hosted.database, a)) as connection:
            assert connection.execute("SELECT count(*) FROM tb_0031").fetchone() == rows
        assert (await hosted.listed())[b]["state"] == "serving"


async def test_the_login_of_a_partner_does_not_open_a_resting_store_and_a_poll_opens_it_only_briefly(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosting(inprocess, ("", ""), options="rest_s = 3600") as hosted:
        a, b, new, *_ = hosted.names
        await until_linked(hosted, a, b)
        node, store, units = hosted.node(a), hosted.node(a).store, hosted.node(a).store.counters
        await until(store.rest)
        before = units.units
        hosted.write({a: "", b: "", new: ""})
        await hosted.ask("/", "server.reload")
        await until(lambda: node.engine.partners.online.get(f"1.{new}"))
        await until(lambda: uplink_of(node).intake.frames_under_way == 0)
        assert (store.state, units.units) == ("rest", before)
        monkeypatch.setattr("semq.store.postgres.store.POLLED_S", 0.05)
        before = units.read_only
        node.parts.submissions.poll()
        await until(lambda: units.read_only > before and store.state == "rest")
        await hosted.wait_arrived(b, await hosted.send(a, b))
        assert store.state == "open"


async def test_the_next_release_is_planned_for_a_scheduled_document_although_regular_reads_are_rare(
    inprocess: InProcess,
) -> None:
    async with hosting(inprocess, ("",), options="rest_poll_s = 3600") as hosted:
        a, target, *_ = hosted.names
        await until_linked(hosted, a)
        clockwork = hosted.node(a).clockwork
        [job] = [job for job in clockwork.jobs if job.name == "schedule"]
        now = SystemClock().wall()
        planned = clockwork.next_run(job)
        assert planned is not None
        assert planned - now > timedelta(minutes=50)
        not_before = round((now.timestamp() + 60) * 1000)
        await hosted.ask(a, "msg.submit", target=target, body_base64="eA==", not_before=not_before)
        planned = clockwork.next_run(job)
        assert planned is not None
        assert planned - now < timedelta(seconds=70)


async def test_a_revoked_certificate_ends_one_link_until_its_node_has_enrolled_again(
    inprocess: InProcess,
) -> None:
    async with hosting(inprocess, secure=True) as hosted:
        a, revoked, b, *_ = hosted.names
        await until_linked(hosted, a, revoked, b)
        operator = await inprocess.client(hosted.hub)
        await ask(operator, "cert.revoke", {"which": revoked, "why": "lost"})
        await until(lambda: "ACCESS_REFUSED" in uplink_of(hosted.node(revoked)).last_error)
        await hosted.wait_arrived(b, await hosted.send(a, b))
        rows = await hosted.listed()
        assert {name: row["link"] for name, row in rows.items()} == {a: "up", revoked: "down", b: "up"}
        assert "ACCESS_REFUSED" in rows[revoked]["error"]
        waiting = await hosted.send(a, revoked)
        await inprocess.enrol(hosted.node(revoked).settings, hosted.hub)
        await hosted.node(revoked)._maintain_certificate()  # as the job does every few seconds
        await hosted.wait_arrived(revoked, waiting)


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


async def test_an_institution_without_a_hub_dials_its_partner_and_reports_no_missing_link(inprocess: InProcess) -> None:
    hubless, name = Hubless(inprocess), uuid4().hex[:8]
    partner = await hubless.start_node("56001", f'[direct."{name}"]\n')
    file = inprocess.folder / "server.toml"
    with databases(inprocess, [name]) as database:
        file.write_text(WITHOUT_HUB.format(database=database, name=name, port=partner.port))
        hubless.certify(load(file, {}, name))
        hosted = RunningServer(inprocess, VirtualServer(read_server(file), file, {}, SystemClock()))
        try:
            await hosted.server.start()
            await until(lambda: list(map(str, hosted.node(name).engine.uplink.partners)) == ["1.56001"])
            row = (await hosted.listed())[name]
            assert (row["state"], row["link"], row["error"]) == ("serving", "none", "")
            await hosted.wait_arrived(partner, await hosted.send(name, "56001"))
        finally:
            await hosted.server.stop()


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


async def start_server(file: Path) -> tuple[PreparedProcess, str]:
    """Return the process of a started server, and the address of its port."""
    program = start_prepared("semq.cli", "server", "run", "--config", str(file))
    line = (await asyncio.to_thread(program.stdout.readline)).decode()
    assert line.startswith("ready "), line
    return program, line.split()[1]


async def wait_for_end(program: PreparedProcess) -> int:
    status = await asyncio.to_thread(program.wait)
    program.stdout.close()
    return status


async def test_a_server_that_is_killed_loses_nothing(inprocess: InProcess) -> None:
    hub = await inprocess.hub(HUB + "".join(f'[nodes.{name}]\npassword = "{name}"\n' for name in "ab"))
    file = inprocess.folder / "server.toml"
    file.write_text(FILE.format(hub=hub.port))
    copy_empty_database(inprocess.folder / "east")
    program, address = await start_server(file)
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
        await wait_for_end(program)
        program, address = await start_server(file)
        async with Client(f"amqp://guest:guest@{address}/b", patience_s=30) as client:

            async def all_there() -> bool:
                rows = (await client.request("msg.list", {}, timeout_s=30))["rows"]
                return sorted(row["lk0"] for row in rows) == sorted(sent)

            await until(all_there)
        program.send_signal(signal.SIGTERM)
        assert await wait_for_end(program) == 0
        assert EmbeddedPostgres(inprocess.folder / "east").pid is None
    finally:
        program.kill()
        await wait_for_end(program)
        await asyncio.to_thread(EmbeddedPostgres(inprocess.folder / "east").stop)
