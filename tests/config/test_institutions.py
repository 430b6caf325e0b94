"""A file with several institutions: what each gets from it, and what is wrong in it."""

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


def test_each_has_its_table_over_the_shared_sections(file: Path) -> None:
    one, other = load(file, {}, "10008"), load(file, {}, "56001")
    assert (str(one.address), str(other.address)) == ("1.10008", "1.56001")
    assert (one.protocol.overdue_s, other.protocol.overdue_s) == (5, 6)
    assert one.data_dir == file.parent / "east" / "10008"
    assert one.database.dsn == "postgresql://semq:pw@db.example:5433/semq_10008?sslmode=require"
    assert other.database.dsn == "postgresql://elsewhere/own"
    assert one.amqp.memory_bytes == 64 << 20
    assert (one.institution, other.institution) == ("10008", "56001")


def test_each_institution_has_an_address_of_its_own(file: Path) -> None:
    assert url_of(load(file, {}, "10008")) == "amqp://erp:secret@127.0.0.1:5680/10008"
    assert admin_address_in(file, {}, "56001").url() == "amqp://guest:guest@127.0.0.1:5680/56001"
    assert admin_address_in(file, {}).url() == "amqp://root:pw@127.0.0.1:5680"


def test_a_variable_with_a_user_of_institutions_does_not_change_the_administrator_of_the_server(file: Path) -> None:
    file.write_text(FILE.replace('[server.users]\nroot = "pw"\n', ""))
    assert admin_address_in(file, {"SEMQ_AMQP__USERS__ERP": "x"}).url() == "amqp://guest:guest@127.0.0.1:5680"


def test_variables_hold_for_one_or_for_all(file: Path) -> None:
    env = {"SEMQ_INSTITUTIONS__10008__HUB__PASSWORD": "from env", "SEMQ_PROTOCOL__OVERDUE_S": "9"}
    one, other = load(file, env, "10008"), load(file, env, "56001")
    assert one.hub is not None
    assert one.hub.password is not None
    assert one.hub.password.get_secret_value() == "from env"
    assert other.hub is not None
    assert other.hub.password is not None
    assert other.hub.password.get_secret_value() == "b"
    assert (one.protocol.overdue_s, other.protocol.overdue_s) == (9, 9)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("amqp.port = 1", "amqp.port"),
        ('node.id = "x"', "node.id"),
        ('log.level = "debug"', "log"),
        ("protocol.overdue = 1", "protocol.overdue"),
    ],
)
def test_settings_that_a_table_must_not_have_are_refused(file: Path, line: str, fault: str) -> None:
    file.write_text(f'{FILE}[institutions."88001"]\nhub.password = "c"\n{line}\n')
    with pytest.raises(ConfigInvalid, match=fault):
        load(file, {}, "88001")
    load(file, {}, "10008")  # nothing is wrong with the others


def test_an_institution_has_to_be_chosen_and_there(file: Path) -> None:
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
def test_faults_of_a_server_file_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(ConfigInvalid):
        server_settings(read_toml(path), path)


def test_the_name_of_a_database_is_quoted() -> None:
    assert database_url("postgresql://h/x", "a b") == "postgresql://h/semq_a%20b"
