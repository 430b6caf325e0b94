"""Wrong usage, exit statuses, the ways to name a node, and names of commands in sources and documents."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from semq.cli.main import exit_status_of, make
from semq.config import ConfigUnreadable
from semq.errors import BadInput, Misconfigured, ProtocolViolation, SemqError, Unavailable
from semq.installation.configuration import free_ports
from tests.app.network import Network
from tests.cli.command import semq, semq_process


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BadInput(), 1),
        (ProtocolViolation(), 1),
        (SemqError(), 1),
        (Unavailable(), 69),
        (Misconfigured(), 78),
        (ConfigUnreadable(), 78),
    ],
)
def test_each_kind_of_error_has_its_status(error: SemqError, status: int) -> None:
    assert exit_status_of(error) == status


def test_every_command_that_sources_and_documents_name_exists() -> None:
    """A name is ``semq word word`` in backquotes, in an indented line of a document, or after /run."""
    root = Path(__file__).parents[2]
    sources = [*root.glob("*.md"), *root.glob("*/README.md"), *(root / "docs").rglob("*.md")]
    for folder in ("semq", "local_node", "platform_node", "spark_reconcile", "deploy", "examples"):
        sources += [file for file in (root / folder).rglob("*") if file.suffix in {".py", ".toml", ".service"}]
    named = {
        tuple(words.split())
        for file in sources
        for words in re.findall(r"(?:``?|^    |/run )semq((?: [a-z][a-z-]*)+)", file.read_text("utf-8"), re.MULTILINE)
    }
    assert ("msg", "trace") in named
    command = get_command(make())
    assert [words for words in sorted(named) if not _is_command(command, words)] == []


def _is_command(command: Any, words: tuple[str, ...]) -> bool:
    """Return whether the words begin with the name of a command."""
    commands = getattr(command, "commands", None)
    if not words or commands is None:
        return True
    return words[0] in commands and _is_command(commands[words[0]], words[1:])


def test_a_separate_process_gives_the_same_result() -> None:
    assert semq_process("version") == semq("version")
    assert semq_process("nope").status == 2


@pytest.mark.parametrize("words", [["nope"], ["msg", "nope"], ["msg", "show"], ["msg", "send", "--save-fwd", "x"]])
def test_wrong_usage_ends_with_status_2(words: list[str]) -> None:
    result = semq(*words)
    assert (result.status, result.out) == (2, "")
    assert "Usage" in result.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--config", "a.toml", "msg", "list"], "semq msg list --config FILE"),
        (["msg", "--config=a.toml", "list"], "semq msg list --config FILE"),
        (["--json", "node", "status"], "semq node status --json"),
        (["--to", "56001"], "semq COMMAND --to ADDRESS"),
    ],
)
def test_an_option_before_the_command_is_refused_with_the_right_order(words: list[str], says: str) -> None:
    result = semq(*words)
    assert (result.status, result.out) == (2, "")
    assert f"Options come after the command, for example: {says}" in result.err


def test_an_option_that_no_command_has_is_called_unknown_also_before_the_command() -> None:
    assert "No such option: --confg" in semq("--confg", "a.toml", "msg", "list").err


def test_help_describes_the_exit_statuses() -> None:
    assert "69 node or database unavailable" in " ".join(semq("--help").out.split())


def test_a_node_must_be_named() -> None:
    semq("node", "status").fails(78, "SEMQ-2201")


def test_a_bad_address_is_refused() -> None:
    semq("node", "status", "--node", "http://localhost").fails(78, "SEMQ-1301")


def test_an_unreachable_node_ends_with_status_69() -> None:
    [port] = free_ports(1)
    semq("node", "status", "--node", f"amqp://app:secret@127.0.0.1:{port}", "--timeout", "0.5").fails(69, "SEMQ-1310")


def test_a_wrong_password_ends_with_status_78_and_is_not_printed(network: Network) -> None:
    result = semq("node", "status", "--node", network.sender.url.replace("secret", "wrong"))
    result.fails(78, "SEMQ-1302", "Its log (the broker logfile) has the reason")
    assert "the former ones are valid until a restart or a reload (`kill -HUP PID`)" in result.err
    assert "wrong" not in result.err.replace("is wrong", "")


def test_a_node_can_be_named_by_variable_and_by_file(network: Network) -> None:
    for result in (
        semq("node", "status", "--json", SEMQ_NODE=network.sender.url),
        semq("node", "status", "--json", SEMQ_CONFIG=str(network.sender.place.config)),
        semq("node", "status", "--json", "--config", str(network.sender.place.config)),
    ):
        assert result.data["node"] == "1.10008"


def test_a_file_of_another_node_than_the_one_that_answers_is_refused(tmp_path: Path, network: Network) -> None:
    copied = tmp_path / "copied.toml"
    copied.write_text(network.sender.place.config.read_text().replace('id = "10008"', 'id = "77001"'))
    for command in (["node", "status"], ["failed", "remove", "--all"], ["worker", "--app", "tests.cli.handling"]):
        semq(*command, "--config", str(copied)).fails(78, "SEMQ-2221", "answers='1.10008' configured='1.77001'")
    assert semq("node", "status", "--json", SEMQ_NODE=network.sender.url, SEMQ_CONFIG=str(copied)).status == 0
    assert semq("node", "status", "--json", "--config", str(network.hub.place.config)).status == 0


def test_a_file_without_a_port_names_no_node(tmp_path: Path, network: Network) -> None:
    file = tmp_path / "any.toml"
    text = network.sender.place.config.read_text()
    file.write_text(text.replace(f"port = {network.sender.place.port}\n", "port = 0\n"))
    semq("node", "status", "--config", str(file)).fails(78, "SEMQ-2202")


def test_a_reader_that_closes_the_pipe_early_causes_no_traceback() -> None:
    listing = subprocess.Popen(
        [sys.executable, "-m", "semq.cli", "errors", "list", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert listing.stdout is not None
    assert listing.stderr is not None
    listing.stdout.close()
    assert listing.stderr.read() == b""
    assert listing.wait() in (0, 1)
    listing.stderr.close()
