"""The address of a node, read from a file without its checks, equals the address in the settings."""

from pathlib import Path

import pytest

from semq.config import ConfigInvalid, ConfigUnreadable, reach
from tests.test_config import LOCAL, read


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "semq.toml"


ENDPOINTS = {
    "no users": "[amqp]\nport = 1234",
    "a password": '[amqp]\nport = 1234\nusers = { app = "p w/" }',
    "the first administrator": """
        [amqp.users.web]
        password = "w"
        inboxes = ["web"]
        [amqp.users.ops]
        password = "o"
        admin = true""",
    "no administrator": '[amqp.users.web]\npassword = "w"\npermissions = {}',
    "all addresses": '[amqp]\nhost = "0.0.0.0"\nallow_plain = true\nport = 0',
    "TLS": '[amqp]\nhost = "::"\ntls = true\nusers = { app = "p" }',
    "TLS, keys elsewhere": '[amqp]\ntls = true\n[tls]\ndir = "keys"',
    "TLS, authorities elsewhere": '[amqp]\ntls = true\n[tls]\ntrust = "../trust.pem"\ndir = "keys"',
    "a number for a password": "[amqp]\nusers = { app = 1234 }",
}


@pytest.mark.parametrize("amqp", ENDPOINTS.values(), ids=ENDPOINTS)
@pytest.mark.parametrize("env", [{}, {"SEMQ_AMQP__USERS__APP": "other"}, {"SEMQ_AMQP__PORT": "99"}], ids=str)
@pytest.mark.parametrize("data_dir", ["", 'data_dir = "../data"'])
def test_the_address_read_alone_equals_the_address_in_the_settings(
    file: Path, amqp: str, env: dict[str, str], data_dir: str
) -> None:
    settings = read(file, LOCAL.replace('id = "10008"', f'id = "10008"\n{data_dir}') + amqp, **env)
    assert reach.admin_address_in(file, env) == reach.admin_address_of(settings)


@pytest.mark.parametrize("node", ['kind = "local"\nid = 10008', 'kind = "local"\nid = "10008"\ntype = 9'])
def test_the_name_read_alone_equals_the_name_in_the_settings(file: Path, node: str) -> None:
    settings = read(file, f"[node]\n{node}\n[hub]\nurl = 'amqp://127.0.0.1'\npassword = 'p'\n")
    assert reach.admin_address_in(file, {}).name == str(settings.address)


def test_the_name_of_a_hub_read_alone_equals_the_name_in_its_settings(file: Path) -> None:
    settings = read(file, '[node]\nkind = "platform"\nid = "hub"\n')
    assert reach.admin_address_in(file, {}).name == str(settings.address) == "2.hub"


@pytest.mark.parametrize(
    "amqp",
    ["[amqp", "[amqp]\nport = 'x'", "[amqp]\nusers = 3", "[amqp.users.a]\nadmin = 2", "amqp = 1", "[amqp]\nhost = 1"],
)
def test_an_unreadable_address_is_reported_as_a_fault_of_the_file(file: Path, amqp: str) -> None:
    file.write_text(amqp)
    with pytest.raises((ConfigInvalid, ConfigUnreadable)):
        reach.admin_address_in(file, {})
    with pytest.raises(ConfigUnreadable):
        reach.admin_address_in(file.with_name("absent.toml"), {})


def test_a_fault_in_another_key_does_not_hide_the_address(file: Path) -> None:
    file.write_text(LOCAL + "[amqp]\nport = 7\nprot = 8")
    assert reach.admin_address_in(file, {}).port == 7
