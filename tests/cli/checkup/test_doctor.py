"""``semq doctor``: the verdicts of its checks on healthy and on faulty nodes."""

import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path

import psycopg
import pytest

from semq.answers.status import Check
from semq.cli.checkup import database, doctor, identity, machine, running_node
from semq.cli.checkup.database import check as check_database
from semq.cli.checkup.finding import FAILING, OK, WARNING, Finding
from semq.config import file as config_file
from semq.config import load
from semq.config.settings import Settings
from semq.installation.configuration import free_ports
from semq.service.credentials.files import TABLE
from tests.app.network import Network
from tests.cli.command import node_process, semq, semq_aside
from tests.service.inprocess import InProcess
from tests.store.embedded.replication import replicated

HUB = '[node]\nkind = "platform"\nid = "hub"\n'
# Checks whose verdict depends on other tests of this network, or on the disk of this machine
NOT_OF_THE_NODE = ("stuck", "submissions", "disk")
CLUSTER = '[cluster]\ncarrier = ["amqp://semq:secret@127.0.0.1:1/semq"]\n'
WEBHOOK = """
[[webhooks]]
name = "erp"
url = "https://example.org/"
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
trust = "no.pem"
"""
LOCAL = '[node]\nkind = "local"\nid = "10008"\n[hub]\nurl = "{url}"\n'


def settings_of(folder: Path, text: str, mode: int = 0o600) -> Settings:
    file = folder / "node.toml"
    file.write_text(text)
    file.chmod(mode)
    return load(file, {})


def verdicts(findings: Iterable[Finding]) -> dict[str, str]:
    return {finding.check: finding.verdict for finding in findings}


# ------------------------------------------------------------------------------------------------------ the command


def test_a_healthy_node_has_no_failed_check(network: Network) -> None:
    # A node that has just started has no link yet; with a delivered document it has one.
    words = ("--to=56001/doctor", "--file=-", "--wait=delivered", "--timeout=60")
    assert semq("msg", "send", *words, "--node", network.sender.url, stdin=b"x").status == 0
    for node, checks in ((network.sender, {"way to the hub", "link", "submissions", "intake"}), (network.hub, set())):
        node.place.config.chmod(0o600)
        result = semq("doctor", "--config", str(node.place.config), "--json").data
        found = {finding["check"]: finding for finding in result["findings"]}
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
        assert [
            finding
            for finding in found.values()
            if finding["verdict"] != OK and finding["check"] not in NOT_OF_THE_NODE
        ] == []
        assert result["verdict"] in (OK, WARNING)


def test_a_node_that_does_not_run_fails_with_the_command_that_starts_it(tmp_path: Path) -> None:
    [port] = free_ports(1)
    file = tmp_path / "hub.toml"
    file.write_text(f"{HUB}[amqp]\nport = {port}\n")
    result = semq("doctor", "--config", str(file))
    assert result.status == 1
    lines = result.out.splitlines()
    [at] = [number for number, line in enumerate(lines) if line.startswith("FAILS  node ")]
    assert lines[at + 1].endswith(f"→ semq node run --config {file}")


def test_a_node_whose_configuration_has_a_fault_is_not_to_be_started_before_its_correction(
    network: Network, tmp_path: Path
) -> None:
    [port] = free_ports(1)
    hub_port = network.hub.url.rpartition(":")[2].partition("/")[0]
    unknown = f'{LOCAL.format(url=f"amqp://127.0.0.1:{hub_port}")}password = "x"\n'.replace("10008", "99999")
    (tmp_path / "file").write_text("no folder")
    for name, text in ("unknown", unknown), ("folder", f'{HUB}data_dir = "file/data"\n'):
        file = tmp_path / f"{name}.toml"
        file.write_text(f"{text}[amqp]\nport = {port}\n")
        findings = json.loads(semq("doctor", "--config", str(file), "--json").out)["findings"]
        [advice] = [finding["advice"] for finding in findings if finding["check"] == "node"]
        assert advice.startswith("Correct the faults above, then: semq node run ")


def test_a_node_without_authorities_is_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(LOCAL.format(url="amqps://127.0.0.1:1") + "[amqp]\ntls = true\n")
    findings = json.loads(semq("doctor", "--config", str(file), "--json").out)["findings"]
    [finding] = [finding for finding in findings if finding["check"] == "node"]
    assert (finding["verdict"], "no certificate yet" in finding["detail"]) == (FAILING, True)


def test_the_cause_of_a_missing_link_is_that_of_the_last_attempt(tmp_path: Path) -> None:
    """Since then, an enrolment may have removed the cause: ``way to the hub`` has the present one."""
    settings = settings_of(tmp_path, LOCAL.format(url="amqps://127.0.0.1"))
    found = running_node.finding_of_check(Check("link", FAILING, "refused"), settings)
    assert (found.verdict, found.detail) == (FAILING, "at the node's last attempt: refused")
    assert "`way to the hub` is the present state" in found.advice
    assert "at the latest 10 s after its last attempt" in found.advice


def test_a_full_folder_has_advice(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, LOCAL.format(url="amqps://127.0.0.1"))
    detail = "/srv/in: 3 failures in a row: [Errno 28] No space left on device: '/srv/in/x'"
    found = running_node.finding_of_check(Check("folders", WARNING, detail), settings)
    assert (found.detail, found.advice.startswith("Free disk space")) == (detail, True)


def test_another_node_on_the_port_is_named(network: Network, tmp_path: Path) -> None:
    text = network.sender.place.config.read_text().replace('id = "10008"', 'id = "10009"')
    file = tmp_path / "other.toml"
    file.write_text(text)
    result = semq("doctor", "--config", str(file), "--json")
    assert result.status == 1
    assert "1.10008 answers at this port, not 1.10009" in result.out


def test_a_changed_password_that_the_running_node_does_not_know_is_named_first(
    network: Network, tmp_path: Path
) -> None:
    file = tmp_path / "changed.toml"
    file.write_text(network.sender.place.config.read_text().replace('"secret"', '"guessed"'))
    result = semq("doctor", "--config", str(file))
    assert result.status == 1
    assert "SEMQ-1302" in result.out
    assert "If the users in the file were changed" in result.out
    assert "guessed" not in result.out


def test_a_password_that_the_hub_does_not_know_fails(network: Network, tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text(network.sender.place.config.read_text().replace('password = "of 10008"', 'password = "guessed"'))
    result = semq("doctor", "--config", str(file))
    assert result.status == 1
    assert "refuses the login of 1.10008" in result.out
    assert "guessed" not in result.out
    assert "Compare node.id and hub.password" in result.out
    assert "which may not know this id" in result.out


def test_a_file_with_faults_ends_with_status_78(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text('[node]\nkind = "platform"\n')
    semq("doctor", "--config", str(file)).fails(78, "SEMQ-2011")


async def test_a_part_of_the_checks_that_hangs_is_reported_and_does_not_delay_the_end_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, has_ended = threading.Event(), threading.Event()

    def hang(settings: Settings) -> list[Finding]:
        released.wait(60)
        has_ended.set()
        return []

    monkeypatch.setattr(database, "check", hang)
    monkeypatch.setattr(doctor, "PART_S_MAX", 0.1)
    settings_of(tmp_path, f"{HUB}[amqp]\nport = 0\n")
    result = await semq_aside("doctor", "--config", str(tmp_path / "node.toml"), "--timeout", "0.1")
    assert not has_ended.is_set()
    assert "database        did not answer within" in result.out
    released.set()


# ------------------------------------------------------------------------------------------------------- the machine


def test_a_file_with_passwords_that_every_user_can_read_is_a_warning(tmp_path: Path) -> None:
    text = HUB + '[amqp]\nusers = { app = "secret" }\n'
    for mode, verdict in ((0o644, WARNING), (0o640, OK)):
        assert verdicts(machine.check(settings_of(tmp_path, text, mode)))["configuration"] == verdict
    assert verdicts(machine.check(settings_of(tmp_path, HUB, 0o644)))["configuration"] == OK
    webhook = LOCAL.format(url="amqps://127.0.0.1") + WEBHOOK
    [found] = [one for one in machine.check(settings_of(tmp_path, webhook, 0o644)) if one.check == "configuration"]
    assert found.verdict == WARNING
    assert found.advice.startswith(f"`chmod 640 {tmp_path / 'node.toml'}`")


def test_rights_to_files_with_the_passwords_of_the_examples_are_no_finding(tmp_path: Path) -> None:
    """These passwords are public, and git keeps no rights. But they are a finding if other machines reach the node."""
    examples = Path(__file__).parents[3] / "examples" / "config"
    for file in (examples / "platform.toml", examples / "a.toml", examples / "secure" / "platform.toml"):
        text = file.read_text("utf-8")
        assert verdicts(machine.check(settings_of(tmp_path, text, 0o644)))["configuration"] == OK
    text = text.replace('host = "127.0.0.1"', 'host = "0.0.0.0"')
    [found] = [one for one in machine.check(settings_of(tmp_path, text)) if one.check == "configuration"]
    assert (found.verdict, "amqp.users.admin" in found.detail) == (WARNING, True)
    mixed = text.replace("{ admin", '{ erp = "secret", admin')
    [found] = [one for one in machine.check(settings_of(tmp_path, mixed, 0o644)) if one.check == "configuration"]
    assert "all users have rights" in found.detail


def test_an_unusable_folder_and_a_full_disk_fail(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    text = HUB + 'data_dir = "file/data"\n[amqp]\nmin_free_disk_bytes = 9_000_000_000_000_000_000\n'
    found = verdicts(machine.check(settings_of(tmp_path, text)))
    assert found["data folder"] == FAILING
    assert "disk" not in found  # free space cannot be measured without the folder
    found = verdicts(machine.check(settings_of(tmp_path, text.replace("file/data", "data"))))
    assert (found["data folder"], found["disk"]) == (OK, FAILING)


@pytest.mark.parametrize(
    ("node", "section", "verdict", "are_blocked"),
    [
        (LOCAL.format(url="amqps://127.0.0.1"), "", FAILING, True),
        (LOCAL.format(url="amqps://127.0.0.1"), '[database]\nurl = "postgresql://127.0.0.1/semq"\n', WARNING, False),
        (HUB, "", FAILING, False),
    ],
)
def test_a_full_disk_blocks_publishers_only_at_a_local_node_with_an_embedded_database(
    tmp_path: Path, node: str, section: str, verdict: str, are_blocked: bool
) -> None:
    text = f"{node}{section}[amqp]\nmin_free_disk_bytes = 9_000_000_000_000_000_000\n"
    (found,) = (row for row in machine.check(settings_of(tmp_path, text)) if row.check == "disk")
    assert (found.verdict, "publishers are blocked" in found.advice) == (verdict, are_blocked)


IMPOSSIBLE = ("file/data", "/proc/semq/data", "x" * 300, "loop/data")


@pytest.mark.parametrize("data_dir", IMPOSSIBLE)
def test_an_unusable_data_directory_is_reported_in_one_line_with_a_code(tmp_path: Path, data_dir: str) -> None:
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    file = tmp_path / "hub.toml"
    file.write_text(f'[node]\nkind = "platform"\nid = "hub"\ndata_dir = "{data_dir}"\n')
    for result in (node_process("node", "run", "--config", str(file)), semq("db", "url", "--config", str(file))):
        assert result.status in (69, 78), result
        assert result.err.startswith("semq: SEMQ-"), result
        assert result.err.count("\n") == 1, result
    result = semq("doctor", "--config", str(file))
    if data_dir != "loop/data":  # the configuration with this path cannot be read
        assert "FAILS  data folder" in result.out
        assert "free in the file system" not in result.out
    assert result.status == (78 if data_dir == "loop/data" else 1)


ALL_PATHS = """
[node]
kind = "{kind}"
id = "10008"
[tls]
dir = "file/pki"
trust = "no.pem"
passphrase_file = "no"
[extract]
folder = "file/extracts"
salt_file = "no.salt"
[secrecy]
bodies_key_file = "no.key"
[http]
certificate = "no.pem"
key = "no.key"
client_authorities = "no.pem"
[telemetry]
endpoint = "http://127.0.0.1:4318/v1/traces"
trust = "no.pem"
"""
OF_A_LOCAL_NODE = """
[hub]
url = "amqps://127.0.0.1"
[[folders]]
path = "file/folder"
receive = false
"""


def test_every_path_of_a_configuration_is_checked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    of_both_kinds = {
        "tls.dir", "tls.trust", "tls.passphrase_file", "extract.folder", "extract.salt_file", "secrecy.bodies_key_file",
        "http.certificate", "http.key", "http.client_authorities", "telemetry.trust",
    }  # fmt: skip
    for kind, text, keys in (
        ("platform", f'{CLUSTER}trust = "no.pem"\n', {"cluster.trust"}),
        ("local", OF_A_LOCAL_NODE + WEBHOOK, {"folders.0.path", "webhooks.0.trust"}),
    ):
        settings = settings_of(tmp_path, ALL_PATHS.format(kind=kind) + text)
        findings = [finding for finding in machine.check(settings) if finding.check in ("file", "folder")]
        assert {finding.detail.partition(":")[0] for finding in findings} == of_both_kinds | keys
        assert {finding.verdict for finding in findings} == {FAILING}


def test_the_table_of_files_has_every_path_of_the_sections() -> None:
    """A new setting of type Path needs a row in TABLE, or a line in `_folders`."""
    named = {row.setting for row in TABLE if not row.setting.startswith(("server.", "webhooks."))}
    paths = {
        f"{section}.{key}"
        for section, keys in config_file.PATHS
        for key in keys
        if (section, key) not in (("tls", "dir"), ("extract", "folder"))
    }
    assert named == paths


def test_a_folder_with_a_name_that_is_too_long_fails_without_an_exception(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, f'{HUB}data_dir = "{"x" * 300}/data"\n')
    assert verdicts(machine.check(settings))["data folder"] == FAILING
    assert verdicts(database.check(settings))["database"] == OK


def test_a_program_for_alerts_that_does_not_exist_fails(tmp_path: Path) -> None:
    for program, verdict in (("sh", OK), ("no-such-program", FAILING)):
        settings = settings_of(tmp_path, f'{HUB}[alerts]\ncommand = ["{program}", "-c", "true"]\n')
        assert verdicts(machine.check(settings))["alerts"] == verdict


# ----------------------------------------------------------------------------------------------------- the database


def test_a_database_without_durable_commits_fails(database_of_role: tuple[str, str], tmp_path: Path) -> None:
    url, role = database_of_role
    settings = settings_of(tmp_path, f'{HUB}[database]\nurl = "{url}"\n')
    assert set(verdicts(database.check(settings)).values()) == {OK}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'ALTER ROLE "{role}" SET synchronous_commit = off')
    found = {finding.check: finding for finding in database.check(settings)}
    assert found["database"].verdict == FAILING
    assert "synchronous_commit" in found["database"].detail
    assert found["tables"].verdict == OK


@pytest.mark.parametrize(("synchronous", "verdict"), [(True, OK), (False, WARNING)])
def test_several_hosts_without_synchronous_replication_are_a_warning(
    tmp_path: Path, synchronous: bool, verdict: str
) -> None:
    with replicated(tmp_path, synchronous=synchronous) as pair:
        settings = settings_of(tmp_path, f'{HUB}[database]\nurl = "{pair.url}"\n')
        assert verdicts(database.check(settings))["replication"] == verdict
        settings = settings_of(tmp_path, f'{HUB}{CLUSTER}control = "{pair.url}"\n')
        assert verdicts(database.check_control(settings)) == {
            "control database": OK, "control replication": verdict, "control database clock": OK,
            "control connections": OK,
        }  # fmt: skip


def test_a_separate_control_database_is_checked(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, f'{HUB}{CLUSTER}control = "postgresql://nobody@127.0.0.1:1/none"\n')
    [found] = database.check_control(settings)
    assert (found.check, found.verdict) == ("control database", FAILING)
    assert "cluster.control" in found.advice
    for text in (HUB, HUB + CLUSTER):
        assert list(database.check_control(settings_of(tmp_path, text))) == []


@pytest.fixture
def database_of_role(database: str) -> tuple[str, str]:
    """Return the URL of a database for a new role, and the role."""
    role = f"doctor_{os.getpid()}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f'DROP ROLE IF EXISTS "{role}"')
        connection.execute(f"CREATE ROLE \"{role}\" LOGIN SUPERUSER PASSWORD 'x'")
        info = connection.info
        return f"postgresql://{role}:x@/{info.dbname}?host={info.host}&port={info.port}", role


def test_an_unreachable_database_and_tables_of_other_versions_fail(
    tmp_path: Path, database: str, empty_database: str
) -> None:
    def checked(url: str, more_settings: str = "") -> dict[str, str]:
        text = f'{HUB}[database]\nurl = "{url}"\n{more_settings}'
        return verdicts(check_database(settings_of(tmp_path, text)))

    assert checked("postgresql://nobody@127.0.0.1:1/none") == {"database": FAILING}
    assert checked(empty_database)["tables"] == OK
    assert checked(empty_database, "migrate = false\n")["tables"] == FAILING
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE semq_version SET version_num = '9999'")
    assert checked(database)["tables"] == FAILING


def test_a_database_of_another_node_fails(tmp_path: Path, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("INSERT INTO store_lease (owner, epoch, until) VALUES ('1.10008.1.1 host f00 -', 1, now())")
    [found] = [
        finding
        for finding in check_database(settings_of(tmp_path, f'{HUB}[database]\nurl = "{database}"\n'))
        if finding.check == "tables"
    ]
    assert found.verdict == FAILING
    assert "1.10008.1.1" in found.detail
    assert "[node] id" in found.advice


# ------------------------------------------------------------------------------------- certificates and rights


async def test_a_certificate_that_ends_soon_is_a_warning(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub("[tls]\ncertificate_days = 10\n")
    settings = inprocess.secure_settings("10008", hub)
    await inprocess.enrol(settings, hub)
    [found] = list(identity.check(settings))
    assert (found.verdict, "10 days left" in found.detail) == (WARNING, True)


def test_a_schema_in_which_every_role_may_create_objects_is_a_warning(
    tmp_path: Path, database_of_role: tuple[str, str]
) -> None:
    url, _ = database_of_role
    settings = settings_of(tmp_path, f'{HUB}[database]\nurl = "{url}"\n')
    assert verdicts(database.check(settings)).get("database rights") is None
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    [found] = [finding for finding in database.check(settings) if finding.check == "database rights"]
    assert found.verdict == WARNING
    assert "REVOKE CREATE ON SCHEMA public FROM public;" in str(found.advice)
