"""Nodes as processes: one that runs until it is asked to stop, and some that cannot start."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

from semq.installation.empty_database import copy_empty_database
from tests.cli.command import node_process, semq_process

HUB = '[node]\nkind = "platform"\nid = "hub"\n[amqp]\nport = {port}\n[log]\nlevel = "error"\n'


def test_an_unreadable_configuration_ends_the_process_with_78(tmp_path: Path) -> None:
    semq_process("platform", "run", "--config", str(tmp_path / "none.toml")).fails(78, "SEMQ-2010")


def test_the_faults_of_a_configuration_are_reported_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(HUB.format(port=0) + "prot = 1\ncolour = 2\n")
    node_process("platform", "run", "--config", str(file)).fails(78, "SEMQ-2011", f"2 faults: {file}: log.prot: ")


def test_the_configuration_of_the_other_kind_of_node_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(HUB.format(port=0))
    result = node_process("local", "run", "--config", str(file))
    result.fails(78, "SEMQ-2005", "describes a platform node")


def test_a_port_in_use_ends_the_process_with_78(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file.write_text(HUB.format(port=taken.getsockname()[1]))
        # The variable that names a node for the command line is not a setting of the node.
        node_process("platform", "run", "--config", str(file), SEMQ_NODE="amqp://elsewhere").fails(78, "SEMQ-2003")


def test_a_node_runs_until_it_is_asked_to_stop_and_refuses_a_second_start(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(HUB.format(port=0).replace("[amqp]", 'data_dir = "data"\n[amqp]'))
    copy_empty_database(tmp_path / "data")
    node = subprocess.Popen(
        [sys.executable, "-m", "semq.cli", "platform", "run", "--config", str(file)], stdout=subprocess.PIPE, text=True
    )
    assert node.stdout is not None
    assert node.stdout.readline().startswith("ready 127.0.0.1:")
    second_start = node_process("platform", "run", "--config", str(file))
    second_start.fails(78, "SEMQ-3904")
    node.send_signal(signal.SIGTERM)
    assert node.wait() == 0
    node.stdout.close()
