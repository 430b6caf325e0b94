"""``semq hub``: the hub's authority, made before its first start; the instances of a hub of one process."""

from pathlib import Path

from tests.app.network import Network
from tests.cli.command import semq

HUB = '[node]\nkind = "platform"\nid = "hub"\n[amqp]\ntls = true\n'


def test_the_authority_is_created_once(tmp_path: Path) -> None:
    config = tmp_path / "hub.toml"
    config.write_text(HUB)
    first = semq("hub", "init-ca", "--config", str(config), "--json").data
    assert first == semq("hub", "init-ca", "--config", str(config), "--json").data
    assert len(first["fingerprint"]) == 64
    keys = list(Path(first["folder"]).rglob("*.key"))
    assert len(keys) == 2
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}


def test_only_a_hub_has_an_authority(tmp_path: Path) -> None:
    config = tmp_path / "a.toml"
    config.write_text('[node]\nkind = "local"\nid = "1"\n[hub]\nurl = "amqps://h"\n')
    semq("hub", "init-ca", "--config", str(config)).fails(78, "SEMQ-2210")


def test_keys_are_encrypted_with_the_passphrase(tmp_path: Path) -> None:
    config = tmp_path / "hub.toml"
    config.write_text(HUB + '[tls]\npassphrase_variable = "SEMQ_KEY_PASSPHRASE"\n')
    semq("hub", "init-ca", "--config", str(config)).fails(78, "SEMQ-5110")
    result = semq("hub", "init-ca", "--config", str(config), "--json", SEMQ_KEY_PASSPHRASE="a long secret").data
    for key in Path(result["folder"]).rglob("*.key"):
        assert b"ENCRYPTED" in key.read_bytes()


def test_a_hub_of_one_process_has_no_list_of_instances_and_says_so(network: Network) -> None:
    result = semq("hub", "instances", "--node", network.hub.url)
    assert (result.status, result.out) == (0, "")
    assert result.err == "the hub is one process, without [cluster]: `semq node status` shows its state\n"
    assert semq("hub", "instances", "--node", network.hub.url, "--json").data == []
