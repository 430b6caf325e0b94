"""Nodes as processes: one that runs until it is asked to stop, and some that cannot start; files of new nodes."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from semq.config import load
from semq.installation.empty_database import copy_empty_database
from tests.cli.command import node_process, semq, semq_process

HUB = '[node]\nkind = "platform"\nid = "hub"\n[amqp]\nport = {port}\n[log]\nlevel = "error"\n'


def test_an_unreadable_configuration_ends_the_process_with_78(tmp_path: Path) -> None:
    semq_process("node", "run", "--config", str(tmp_path / "none.toml")).fails(78, "SEMQ-2010")


def test_the_faults_of_a_configuration_are_reported_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(HUB.format(port=0) + "prot = 1\ncolour = 2\n")
    node_process("node", "run", "--config", str(file)).fails(78, "SEMQ-2011", f"2 faults: {file}: log.prot: ")


def test_the_configuration_of_the_other_kind_of_node_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(HUB.format(port=0))
    command = [sys.executable, "-P", "-m", "local_node", "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (78, "")
    assert f"SEMQ-2005 {file} describes a platform node" in done.stderr


def test_a_file_of_any_kind_is_run_by_one_command(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    for text, key, variables in (
        ('[node]\nkind = "local"\nid = "1"', "hub", {}),
        ('[node]\nid = "1"', "node.kind", {}),
        ('[node]\nid = "1"\n[hub]\nurl = "amqps://h"', "hub", {"SEMQ_NODE__KIND": "platform"}),
        ("node = 1", "node", {}),
        ('[server]\nid = "east"\ncolour = 1', "server.colour", {}),
    ):
        file.write_text(text)
        node_process("node", "run", "--config", str(file), **variables).fails(78, "SEMQ-2011", f"{file}: {key}: ")


def test_a_new_node_has_a_commented_file_that_only_its_owner_reads_and_the_next_commands(tmp_path: Path) -> None:
    folder = tmp_path / "the hub"
    made = semq("node", "init", "--kind", "platform", str(folder), "--institution", "10008", "--name", "hub.example")
    config, quoted = folder / "node.toml", f"'{folder}/node.toml'"
    assert (made.status, made.out.partition(":")[0]) == (0, str(config))
    assert made.err.split("\n")[:4] == [
        "Next:", f"  semq node run --config {quoted}", f"  semq hub nodes token 10008 --config {quoted}",
        "  semq node init --kind local 10008 --id 10008 --hub hub.example:17670",
    ]  # fmt: skip
    assert config.stat().st_mode & 0o777 == 0o600
    assert semq("config", "check", "--config", str(config)).status == 0
    hub = load(config, {})
    assert (hub.amqp.host, hub.amqp.port, hub.amqp.tls, hub.tls.names) == ("0.0.0.0", 17670, True, ["hub.example"])
    assert [*hub.nodes] == ["10008"]

    semq("node", "init", "--kind", "platform", str(folder)).fails(1, "SEMQ-2303", "node.toml")
    assert load(config, {}).amqp.users == hub.amqp.users
    words = ["node", "init", "--kind", "local", "--id", "10008", "--hub", "hub.example:17670", "--port", "5", "--json"]
    facts = semq(*words, str(tmp_path / "a")).data
    node = load(tmp_path / "a" / "node.toml", {})
    assert node.hub is not None
    assert node.http is not None
    assert (node.amqp.port, node.hub.url, node.http.port) == (5, "amqps://hub.example:17670", 15)
    assert [command.split()[:3] for command in facts["next"]] == [["semq", "node", "enroll"], ["semq", "node", "run"]]
    assert node.amqp.users["app"].password != hub.amqp.users["admin"].password


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--kind local", "Name the institution"),
        ("--kind local --id 1 --institution 2", "Only --kind platform has this option"),
        ("--kind local --id 1 --hub hub.example", "Name host and port"),
        ("--kind platform --hub h:1", "Only --kind local has this option"),
        ("--kind server", "one of local, platform"),
    ],
)
def test_wrong_options_of_a_new_node_write_nothing(tmp_path: Path, words: str, says: str) -> None:
    result = semq("node", "init", *words.split(), str(tmp_path / "a"))
    assert (result.status, says in result.err) == (2, True), result
    assert not (tmp_path / "a").exists()


def test_a_wrong_name_of_a_new_node_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    semq("node", "init", "--kind", "local", "--id", "1 0", str(tmp_path / "a")).fails(78, "SEMQ-2011", "node.id")
    assert [*tmp_path.rglob("*.toml")] == []


def test_a_port_in_use_ends_the_process_with_78(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file.write_text(HUB.format(port=taken.getsockname()[1]))
        # The variable that names a node for the command line is not a setting of the node.
        node_process("node", "run", "--config", str(file), SEMQ_NODE="amqp://elsewhere").fails(78, "SEMQ-2003")


def test_a_node_runs_until_it_is_asked_to_stop_and_refuses_a_second_start(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(HUB.format(port=0).replace("[amqp]", 'data_dir = "data"\n[amqp]'))
    copy_empty_database(tmp_path / "data")
    node = subprocess.Popen(
        [sys.executable, "-m", "semq.cli", "node", "run", "--config", str(file)], stdout=subprocess.PIPE, text=True
    )
    assert node.stdout is not None
    assert node.stdout.readline().startswith("ready 127.0.0.1:")
    second_start = node_process("node", "run", "--config", str(file))
    second_start.fails(78, "SEMQ-3904")
    node.send_signal(signal.SIGTERM)
    assert node.wait() == 0
    node.stdout.close()
