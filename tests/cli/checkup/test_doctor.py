"""``semq doctor`` on nodes with one fault each, on real databases and sockets."""

import asyncio
import os
import socket
from pathlib import Path

import psycopg
import pytest

from semq.cli.checkup import database, hub_link, identity, machine
from semq.cli.checkup.finding import FAILING, OK, WARNING, Finding
from semq.config import load
from semq.config.settings import Settings
from semq.service.credentials.identity import ring_of
from tests.app.network import Network
from tests.cli.command import semq, semq_process
from tests.pki.people import authority
from tests.replication import replicated
from tests.service.inprocess import InProcess, linked

HUB = '[node]\nkind = "platform"\nid = "hub"\n'
# checks whose result depends on other tests of this network, and on the disk
LEFT_BY_OTHERS = ("stuck", "submissions", "disk")
CLUSTER = '[cluster]\ncarrier = ["amqp://semq:secret@127.0.0.1:1/semq"]\n'
LOCAL = '[node]\nkind = "local"\nid = "10008"\n[hub]\nurl = "{url}"\n'


def settings_of(folder: Path, text: str, mode: int = 0o600) -> Settings:
    file = folder / "node.toml"
    file.write_text(text)
    file.chmod(mode)
    return load(file, {})


def verdicts(findings: list[Finding]) -> dict[str, str]:
    return {one.check: one.verdict for one in findings}


async def on_the_way(settings: Settings) -> Finding:
    [found] = [one async for one in hub_link.check(settings)]
    return found


# ------------------------------------------------------------------------------------------------------ the command


def test_a_healthy_node_has_no_failed_check(network: Network) -> None:
    # a node that has just started has no link yet
    up = ("--to=56001/doctor", "--file=-", "--wait=delivered", "--timeout=60")
    assert semq("msg", "send", *up, "--node", network.sender.url, stdin=b"x").status == 0
    for node, checks in ((network.sender, {"way to the hub", "link", "submissions", "intake"}), (network.hub, set())):
        node.place.config.chmod(0o600)
        result = semq("doctor", "--config", str(node.place.config), "--json").data
        found = {one["check"]: one for one in result["findings"]}
        expected = {
            "configuration",
            "data folder",
            "disk",
            "database",
            "database clock",
            "connections",
            "tables",
            "node",
        }
        assert expected | checks | {"store", "resources", "stuck"} == found.keys()
        # Undelivered documents of other tests, and the free space of this machine, are not faults of the node.
        assert [one for one in found.values() if one["verdict"] != OK and one["check"] not in LEFT_BY_OTHERS] == []
        assert result["verdict"] in (OK, WARNING)


def test_a_node_that_does_not_run_fails_with_the_command_that_starts_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    file = tmp_path / "hub.toml"
    file.write_text(f"{HUB}[amqp]\nport = {port}\n")
    result = semq("doctor", "--config", str(file))
    assert result.status == 1
    lines = result.out.splitlines()
    [at] = [number for number, line in enumerate(lines) if line.startswith("FAILS  node ")]
    assert f"./run node platform --config {file}" in lines[at + 1]


def test_another_node_on_the_port_is_named(network: Network, tmp_path: Path) -> None:
    text = network.sender.place.config.read_text().replace('id = "10008"', 'id = "10009"')
    file = tmp_path / "other.toml"
    file.write_text(text)
    result = semq("doctor", "--config", str(file), "--json")
    assert result.status == 1
    assert "1.10008 answers here, not 1.10009" in result.out


def test_a_password_that_the_hub_does_not_know(network: Network, tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text(network.sender.place.config.read_text().replace('password = "of 10008"', 'password = "guessed"'))
    result = semq("doctor", "--config", str(file))
    assert result.status == 1
    assert "does not let 1.10008 in" in result.out
    assert "guessed" not in result.out


def test_a_wrong_file_is_a_matter_of_configuration(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text('[node]\nkind = "platform"\n')
    semq("doctor", "--config", str(file)).fails(78, "SEMQ-2011")


# ------------------------------------------------------------------------------------------------------- the machine


def test_passwords_that_everybody_can_read(tmp_path: Path) -> None:
    text = HUB + '[amqp]\nusers = { app = "secret" }\n'
    for mode, verdict in ((0o644, WARNING), (0o640, OK)):
        assert verdicts(list(machine.check(settings_of(tmp_path, text, mode))))["configuration"] == verdict
    assert verdicts(list(machine.check(settings_of(tmp_path, HUB, 0o644))))["configuration"] == OK


def test_an_unusable_folder_and_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    text = HUB + 'data_dir = "file/data"\n[amqp]\nmin_free_disk_bytes = 9_000_000_000_000_000_000\n'
    found = verdicts(list(machine.check(settings_of(tmp_path, text))))
    assert found["data folder"] == FAILING
    assert "disk" not in found  # the finding on the disk is left out
    found = verdicts(list(machine.check(settings_of(tmp_path, text.replace("file/data", "data")))))
    assert (found["data folder"], found["disk"]) == (OK, FAILING)


IMPOSSIBLE = ("file/data", "/proc/semq/data", "x" * 300, "loop/data")


@pytest.mark.parametrize("data_dir", IMPOSSIBLE)
def test_an_unusable_data_directory_is_one_line_with_a_code_for_every_command(tmp_path: Path, data_dir: str) -> None:
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    file = tmp_path / "hub.toml"
    file.write_text(f'[node]\nkind = "platform"\nid = "hub"\ndata_dir = "{data_dir}"\n')
    for result in (semq_process("platform", "run", "--config", str(file)), semq("db", "url", "--config", str(file))):
        assert result.status in (69, 78), result
        assert result.err.startswith("semq: SEMQ-"), result
        assert result.err.count("\n") == 1, result
    result = semq("doctor", "--config", str(file))
    if data_dir != "loop/data":  # which is not a path at all
        assert "FAILS  data folder" in result.out
        assert "free where" not in result.out
    assert result.status == (78 if data_dir == "loop/data" else 1)


def test_every_path_of_a_configuration_is_checked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    text = (
        f'{HUB}[tls]\ndir = "file/pki"\ntrust = "no.pem"\npassphrase_file = "no"\n'
        '[extract]\nfolder = "file/extracts"\nsalt_file = "no.salt"\n[secrecy]\nbodies_key_file = "no.key"\n'
    )
    found = [one for one in machine.check(settings_of(tmp_path, text)) if one.check in ("file", "folder")]
    assert {one.detail.partition(":")[0] for one in found} == {
        "tls.dir", "tls.trust", "tls.passphrase_file", "extract.folder", "extract.salt_file", "secrecy.bodies_key_file",
    }  # fmt: skip
    assert {one.verdict for one in found} == {FAILING}


def test_a_folder_that_cannot_be_searched(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, f'{HUB}data_dir = "{"x" * 300}/data"\n')
    assert verdicts(list(machine.check(settings)))["data folder"] == FAILING
    assert verdicts(list(database.check(settings)))["database"] == OK


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    for program, verdict in (("sh", OK), ("no-such-program", FAILING)):
        settings = settings_of(tmp_path, f'{HUB}[alerts]\ncommand = ["{program}", "-c", "true"]\n')
        assert verdicts(list(machine.check(settings)))["alerts"] == verdict


# ----------------------------------------------------------------------------------------------------- the database


def test_a_database_without_durable_commits_is_refused(database_of_role: tuple[str, str], tmp_path: Path) -> None:
    url, role = database_of_role
    settings = settings_of(tmp_path, f'{HUB}[database]\nurl = "{url}"\n')
    assert set(verdicts(list(database.check(settings))).values()) == {OK}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'ALTER ROLE "{role}" SET synchronous_commit = off')
    found = {one.check: one for one in database.check(settings)}
    assert found["database"].verdict == FAILING
    assert "synchronous_commit" in found["database"].detail
    assert found["tables"].verdict == OK


@pytest.mark.parametrize(("synchronous", "verdict"), [(True, OK), (False, WARNING)])
def test_several_hosts_without_synchronous_replication_are_a_warning(
    tmp_path: Path, synchronous: bool, verdict: str
) -> None:
    with replicated(tmp_path, synchronous=synchronous) as pair:
        settings = settings_of(tmp_path, f'{HUB}[database]\nurl = "{pair.url}"\n')
        assert verdicts(list(database.check(settings)))["replication"] == verdict
        settings = settings_of(tmp_path, f'{HUB}{CLUSTER}control = "{pair.url}"\n')
        assert verdicts(list(database.check_control(settings))) == {
            "control database": OK, "control replication": verdict, "control database clock": OK,
            "control connections": OK,
        }  # fmt: skip


def test_a_control_database_of_its_own_is_checked(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, f'{HUB}{CLUSTER}control = "postgresql://nobody@127.0.0.1:1/none"\n')
    [found] = database.check_control(settings)
    assert (found.check, found.verdict) == ("control database", FAILING)
    assert "cluster.control" in found.advice
    for text in (HUB, HUB + CLUSTER):
        assert list(database.check_control(settings_of(tmp_path, text))) == []


@pytest.fixture
def database_of_role(database: str) -> tuple[str, str]:
    """Return a database with a role of its own that may log in there."""
    role = f"doctor_{os.getpid()}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f'DROP ROLE IF EXISTS "{role}"')
        connection.execute(f"CREATE ROLE \"{role}\" LOGIN SUPERUSER PASSWORD 'x'")
        info = connection.info
        return f"postgresql://{role}:x@/{info.dbname}?host={info.host}&port={info.port}", role


def test_no_database_and_tables_of_other_versions(tmp_path: Path, database: str, empty_database: str) -> None:
    def found(url: str, more: str = "") -> dict[str, str]:
        return verdicts(list(_looked(settings_of(tmp_path, f'{HUB}[database]\nurl = "{url}"\n{more}'))))

    assert found("postgresql://nobody@127.0.0.1:1/none") == {"database": FAILING}
    assert found(empty_database)["tables"] == OK
    assert found(empty_database, "migrate = false\n")["tables"] == FAILING
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE semq_version SET version_num = '9999'")
    assert found(database)["tables"] == FAILING


def _looked(settings: Settings) -> list[Finding]:
    return list(database.check(settings))


# ----------------------------------------------------------------------------------------- certificates, and the hub


async def test_a_certified_node_and_its_way(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    node = await inprocess.secure_local("10008", hub)
    await linked(node)
    assert verdicts(list(identity.check(node.settings))) == {"certificate": OK}
    found = await on_the_way(node.settings)
    assert (found.verdict, "TLSv1.3" in found.detail) == (OK, True)
    link = node.uplink.link
    assert verdicts(list(identity.check(hub.settings))) == {"certificate": OK}
    assert node.uplink.link is link, "looking must not end the node's own link"


async def test_a_node_without_certificate_with_a_foreign_authority_and_with_one_that_was_revoked(
    inprocess: InProcess,
) -> None:
    hub = await inprocess.secure_hub()
    settings = inprocess.secure_settings("10008", hub)
    assert verdicts(list(identity.check(settings))) == {"certificate": FAILING}
    assert (await on_the_way(settings)).verdict == FAILING
    await inprocess.enrol(settings, hub)
    assert (await on_the_way(settings)).verdict == OK
    await hub.registry.revoke("10008", "a bad day")
    refused = await on_the_way(settings)
    assert refused.verdict == FAILING
    assert "does not let 1.10008 in" in refused.detail
    ring = ring_of(settings)
    ring.trust_path.write_bytes(authority("another").pem)
    assert verdicts(list(identity.check(settings)))["certificate"] == FAILING
    assert "authority" in (await on_the_way(settings)).advice


async def test_obstacles_on_the_way_to_the_hub_are_named(tmp_path: Path) -> None:
    text = LOCAL + 'password = "x"\n'
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    refused = await on_the_way(settings_of(tmp_path, text.format(url=f"amqp://127.0.0.1:{port}")))
    assert "No program listens" in refused.advice
    named = text.format(url="amqp://no-such-host.invalid:5670") + "allow_plain = true\n"
    assert "cannot be resolved" in (await on_the_way(settings_of(tmp_path, named))).advice

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        found = await on_the_way(settings_of(tmp_path, text.format(url=f"amqp://127.0.0.1:{port}")))
    assert found.verdict == FAILING
    assert found.advice


async def test_a_certificate_that_ends(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub("[tls]\ncertificate_days = 10\n")
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    [found] = list(identity.check(settings))
    assert (found.verdict, "10 days left" in found.detail) == (WARNING, True)


def test_a_schema_in_which_everybody_may_create_objects(tmp_path: Path, database_of_role: tuple[str, str]) -> None:
    url, _ = database_of_role
    settings = settings_of(tmp_path, f'{HUB}[database]\nurl = "{url}"\n')
    assert verdicts(list(database.check(settings))).get("database rights") is None
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    [found] = [one for one in database.check(settings) if one.check == "database rights"]
    assert found.verdict == WARNING
    assert "REVOKE CREATE ON SCHEMA public FROM public;" in str(found.advice)
