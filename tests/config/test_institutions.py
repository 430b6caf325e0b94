"""A file with several institutions: the settings of each, and faults of the file."""

from pathlib import Path

import pytest

from semq.config import load
from semq.config.errors import ConfigInvalid
from semq.config.file import read_toml
from semq.config.institutions import database_url, server_settings
from semq.config.reach import admin_address_in, url_of

FILE = """
[server]
id = "east"
data_dir = "east"
[server.users]
root = "pw"
[database]
url = "postgresql://semq:pw@db.example:5433/postgres?sslmode=require"
[amqp]
port = 5680
[hub]
url = "amqp://127.0.0.1"
[protocol]
overdue_s = 5
[institutions."10008"]
hub.password = "a"
[institutions."10008".amqp.users]
erp = "secret"
[institutions."56001"]
hub.password = "b"
protocol.overdue_s = 6
database.url = "postgresql://elsewhere/own"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "server.toml"
    path.write_text(FILE)
    return path


def test_the_table_of_an_institution_replaces_shared_settings(file: Path) -> None:
    first, second = load(file, {}, "10008"), load(file, {}, "56001")
    assert (str(first.address), str(second.address)) == ("1.10008", "1.56001")
    assert (first.protocol.overdue_s, second.protocol.overdue_s) == (5, 6)
    assert first.data_dir == file.parent / "east" / "10008"
    assert first.database.dsn == "postgresql://semq:pw@db.example:5433/semq_10008?sslmode=require"
    assert second.database.dsn == "postgresql://elsewhere/own"
    assert first.amqp.memory_bytes == 64 << 20
    assert (first.institution, second.institution) == ("10008", "56001")


def test_each_institution_has_an_address_of_its_own(file: Path) -> None:
    assert url_of(load(file, {}, "10008")) == "amqp://erp:secret@127.0.0.1:5680/10008"
    assert admin_address_in(file, {}, "56001").url() == "amqp://guest:guest@127.0.0.1:5680/56001"
    assert admin_address_in(file, {}).url() == "amqp://root:pw@127.0.0.1:5680"
    assert admin_address_in(file, {}).name == "east"  # the server's; an institution is selected by the virtual host


def test_users_in_the_shared_section_are_those_of_every_institution(file: Path) -> None:
    file.write_text(FILE.replace("port = 5680", 'port = 5680\nusers.shared = "pw"'))
    first, second = load(file, {}, "10008"), load(file, {}, "56001")
    assert (set(first.amqp.users), set(second.amqp.users)) == ({"shared", "erp"}, {"shared"})
    assert server_settings(read_toml(file), file).amqp.users == {}


def test_a_variable_with_a_user_of_institutions_does_not_change_the_administrator_of_the_server(file: Path) -> None:
    file.write_text(FILE.replace('[server.users]\nroot = "pw"\n', ""))
    assert admin_address_in(file, {"SEMQ_AMQP__USERS__ERP": "x"}).url() == "amqp://guest:guest@127.0.0.1:5680"


def test_variables_hold_for_one_or_for_all_institutions(file: Path) -> None:
    env = {"SEMQ_INSTITUTIONS__10008__HUB__PASSWORD": "from env", "SEMQ_PROTOCOL__OVERDUE_S": "9"}
    first, second = load(file, env, "10008"), load(file, env, "56001")
    assert first.hub is not None
    assert first.hub.password is not None
    assert first.hub.password.get_secret_value() == "from env"
    assert second.hub is not None
    assert second.hub.password is not None
    assert second.hub.password.get_secret_value() == "b"
    assert (first.protocol.overdue_s, second.protocol.overdue_s) == (9, 9)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("amqp.port = 1", "amqp.port"),
        ('node.id = "x"', "node.id"),
        ('log.level = "debug"', "log"),
        ("protocol.overdue = 1", "protocol.overdue"),
    ],
)
def test_faults_in_the_table_of_an_institution_concern_no_other_institution(file: Path, line: str, fault: str) -> None:
    file.write_text(f'{FILE}[institutions."88001"]\nhub.password = "c"\n{line}\n')
    with pytest.raises(ConfigInvalid, match=fault):
        load(file, {}, "88001")
    load(file, {}, "10008")


def test_a_fault_of_a_path_names_the_table_of_the_institution(file: Path) -> None:
    file.write_text(FILE + 'tls.trust = "a\\u0000b"\n')
    with pytest.raises(ConfigInvalid) as invalid:
        load(file, {}, "56001")
    [fault] = invalid.value.faults
    assert str(fault).startswith(f'{file} [institutions."56001"]: tls.trust: not a valid path')


def test_an_institution_must_be_named_and_have_a_table(file: Path) -> None:
    with pytest.raises(ConfigInvalid, match="--institution"):
        load(file, {})
    with pytest.raises(ConfigInvalid, match="did you mean 10008"):
        load(file, {}, "10080")


WRONG = (
    "[server]\n",
    '[server]\nid = "x"\ndata_dir = "x"\ncertificate = "a"\n',
    'institutions = 1\n[server]\nid = "x"\ndata_dir = "x"\n',
)


@pytest.mark.parametrize("text", WRONG)
def test_a_server_file_with_a_fault_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(ConfigInvalid):
        server_settings(read_toml(path), path)


def test_the_name_of_a_database_is_quoted() -> None:
    assert database_url("postgresql://h/x", "a b") == "postgresql://h/semq_a%20b"
