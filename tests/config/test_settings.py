"""Configurations of nodes without a hub, and values as texts."""

import os
from pathlib import Path

import pytest

from semq.config import ConfigInvalid, load

EXAMPLES = Path(__file__).parents[2] / "examples" / "config" / "without_hub"
ALONE = '[node]\nkind = "local"\nid = "10008"\n[direct."56001"]\nurls = ["amqps://b.example"]\n'


def test_the_examples_without_a_hub_name_each_other() -> None:
    nodes = [load(EXAMPLES / f"{name}.toml", {}) for name in ("a", "b")]
    for node, other in (nodes, nodes[::-1]):
        assert node.has_no_hub
        assert node.tls.trust == EXAMPLES.parents[2] / "var" / "without-hub-authority.pem"
        [(partner, link)] = node.direct.items()
        assert partner == other.node.id
        assert link.urls in ([], [f"amqps://127.0.0.1:{other.amqp.port}"])


def test_partners_of_a_direct_link_replace_the_hub(tmp_path: Path) -> None:
    file = tmp_path / "semq.toml"
    file.write_text(ALONE)
    assert load(file, {}).has_no_hub
    file.write_text(ALONE + '[datagrams]\nadvertised_host = "a.example"\n')
    assert load(file, {}).datagrams is not None
    file.write_text(ALONE.replace('kind = "local"', 'kind = "platform"'))
    with pytest.raises(ConfigInvalid, match="only local nodes have direct links"):
        load(file, {})


@pytest.mark.parametrize(
    ("urls", "fault"),
    [
        ("[]", r"direct\.56001\.urls: missing: name the partner's address, or set amqp\.tls = true"),
        (
            '["amqps://a:b@b.example"]',
            r"direct\.56001\.urls\.0: must not contain .*: the certificates prove both nodes",
        ),
        ('["amqp://b.example"]', r"direct\.56001\.urls\.0: must be amqps://"),
    ],
)
def test_a_fault_of_the_addresses_of_a_partner_names_the_key_and_the_correction(
    tmp_path: Path, urls: str, fault: str
) -> None:
    file = tmp_path / "node.toml"
    file.write_text(ALONE.replace('["amqps://b.example"]', urls))
    with pytest.raises(ConfigInvalid, match=fault):
        load(file, {})


def test_the_first_pause_of_a_direct_link_is_not_longer_than_the_longest_one(tmp_path: Path) -> None:
    file = tmp_path / "semq.toml"
    file.write_text(ALONE + "reconnect_s_min = 0.1\nreconnect_s_max = 0.1\n")
    assert load(file, {}).direct["56001"].reconnect_s_max == 0.1
    file.write_text(ALONE + "reconnect_s_max = 0.1\n")
    with pytest.raises(ConfigInvalid, match=r"direct\.56001\.reconnect_s_min: is greater"):
        load(file, {})


def test_values_are_shown_as_in_the_file_and_secrets_as_stars(tmp_path: Path) -> None:
    file = tmp_path / "semq.toml"
    file.write_text(
        '[node]\nkind = "platform"\nid = "hub"\n[cluster]\ncarrier = ["amqp://semq:secret@127.0.0.1/semq"]\n'
        "[reconcile]\ndates = [2031-03-01]\nhub = true\n"
    )
    shown = {row.key: row.value for row in load(file, {}).explain()}
    assert shown["cluster.carrier"] == "********"
    assert (shown["reconcile.dates"], shown["reconcile.hub"]) == ('["2031-03-01"]', "true")
    assert (shown["amqp.virtual_hosts"], shown["amqp.port"], shown["tls.dir"]) == ('["/"]', "5672", "")


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ('[nodes."10008"]\nusers = ["desk"]\n', "nodes.10008.users"),
        ('[nodes."10008"]\nname = "North"\n', "nodes.10008.name"),
        ('[groups.retailers]\nmembers = ["10008"]\n', "groups"),
        ('[[agreements]]\nfrom = ["10008"]\n', "agreements"),
    ],
)
def test_definitions_in_the_file_of_a_hub_are_sent_where_they_belong(tmp_path: Path, table: str, key: str) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(f'[node]\nkind = "platform"\nid = "hub"\n{table}')
    with pytest.raises(ConfigInvalid) as refused:
        load(file, {})
    assert f"{key}: belongs to the definitions of the hub, not to its file: `semq definitions import`" in str(
        refused.value
    )


@pytest.mark.parametrize("key", ["tls.passphrase_file", "secrecy.bodies_key_file", "tls.trust"])
def test_a_named_pipe_instead_of_a_file_is_refused(tmp_path: Path, key: str) -> None:
    """A start would wait until somebody writes to it."""
    os.mkfifo(tmp_path / "pipe")
    section, _, name = key.partition(".")
    file = tmp_path / "node.toml"
    file.write_text(f'[node]\nkind = "platform"\nid = "hub"\n[{section}]\n{name} = "pipe"\n')
    with pytest.raises(ConfigInvalid, match=f"{key}: .*named pipe"):
        load(file, {})
