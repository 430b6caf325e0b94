"""The imports of commands, and the table of groups."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import semq.cli as command_line
from semq.cli.groups import GROUPS, TOP_COMMANDS, CommandRow, rows_for
from tests.app.network import Network
from tests.cli.command import environment, semq

# Modules that a command on a running node must not import: parts of nodes, and packages whose import takes longer than
# the request.
FORBIDDEN = {
    "alembic", "apscheduler", "cryptography", "psycopg", "pydantic", "pydantic_settings", "rich",
    "sqlalchemy", "structlog", "uvloop", "local_node", "platform_node", "spark_reconcile",
    "semq.broker", "semq.config", "semq.engine", "semq.pki", "semq.seal", "semq.service", "semq.store",
}  # fmt: skip
AT_SENDER = (
    ("msg", "list", "--side=outbound", "--limit=5"), ("msg", "show", "LK0"), ("msg", "trace", "LK0"),
    ("queue", "list"), ("queue", "partners"), ("stuck", "list"), ("stuck", "explain", "LK0"), ("failed", "list"),
    ("broker", "queues"), ("worker", "list"), ("node", "metrics"),
    ("node", "status"), ("node", "health"),
)  # fmt: skip
AT_HUB = (
    ("held", "list"), ("node", "list"), ("node", "status"), ("node", "health"), ("cert", "list"),
    ("definitions", "export"), ("hub", "stores", "list"),
)  # fmt: skip
WITHOUT_NODE = (("version",), ("errors", "list"), ("errors", "lookup", "1201"))
CONFIG = """
[node]
kind = "local"
id = "10008"
data_dir = "data"
[amqp]
port = {port}
users = {{ {user} = "{password}" }}
[hub]
url = "amqp://127.0.0.1:1"
password = "password"
"""


@pytest.fixture(scope="module")
def lk0(network: Network) -> str:
    """Send a document to an inbox that no other test uses; return its LK0."""
    words = (
        "--to=56001/groups",
        "--file=-",
        "--wait=delivered",
        "--timeout=60",
        "--json",
        "--node",
        network.sender.url,
    )
    sent = semq("msg", "send", *words, stdin=b"x")
    return str(sent.data["lk0"])


# A program that runs commands and prints the modules imported after each; this process has imported all modules.
PROBE = """
import json, sys
from semq.cli.main import run
modules = {}
for words in json.loads(sys.argv[1]):
    assert run(words) == 0, words
    modules[" ".join(words)] = list(sys.modules)
print(json.dumps(modules))
"""


def imported_by(*commands: Sequence[str]) -> dict[str, list[str]]:
    """Run commands in one process; return for each the modules that are imported when it has ended."""
    probe = [sys.executable, "-P", "-c", PROBE, json.dumps(commands)]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=120, env=environment({}))
    assert done.returncode == 0, done.stderr
    modules: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return modules


def test_a_command_loads_no_part_of_a_node(network: Network, lk0: str) -> None:
    commands = [list(words) for words in WITHOUT_NODE]
    commands += [[*words, f"--node={network.hub.url}"] for words in AT_HUB]
    for words in AT_SENDER:
        commands.append([lk0 if word == "LK0" else word for word in words] + [f"--node={network.sender.url}"])
    loaded = imported_by(*commands)
    assert len(loaded) == len(commands)
    assert [command for command, modules in loaded.items() if forbidden_in(modules)] == []


def test_the_commands_of_all_groups_are_made_without_a_part_of_a_node() -> None:
    probe = "import sys; from semq.cli.main import make; make(); print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", probe], capture_output=True, text=True, timeout=120, check=True)
    assert forbidden_in(set(done.stdout.split())) == set()


def test_a_command_with_a_configuration_reads_only_the_address_of_the_node(network: Network, tmp_path: Path) -> None:
    file, url = tmp_path / "a.toml", urlsplit(network.sender.url)
    file.write_text(CONFIG.format(port=url.port, user=url.username, password=url.password))
    [modules] = imported_by(["msg", "list", f"--config={file}"]).values()
    assert forbidden_in(modules) == {"semq.config"}


def forbidden_in(modules: Iterable[str]) -> set[str]:
    return {name for name in FORBIDDEN if any(f"{module}.".startswith(f"{name}.") for module in modules)}


def test_the_first_word_selects_one_row_and_help_selects_all() -> None:
    rows: tuple[CommandRow, ...] = (*GROUPS, *TOP_COMMANDS)
    for row in rows:
        groups, tops = rows_for(row.name)
        assert [group.name for group in groups] + [command.name for command in tops] == [row.name]
    for first in (None, "--help", "nonsense"):
        groups, tops = rows_for(first)
        assert (tuple(groups), tuple(tops)) == (GROUPS, TOP_COMMANDS)


def test_every_module_that_adds_commands_is_in_the_table() -> None:
    named = {module for row in GROUPS for module in (row.where.partition(":")[0], *row.more_modules)}
    folder = Path(command_line.__file__).parent
    adding = {
        ".".join(["semq.cli", *file.relative_to(folder).with_suffix("").parts])
        for file in folder.rglob("*.py")
        if re.search(r"^@\w+\.command\(", file.read_text("utf-8"), re.MULTILINE)
    }
    assert adding - named == set()
    from_other_modules = {"msg": {"cancel", "receive", "prove"}, "node": {"enroll", "status"}}
    for name, commands in from_other_modules.items():
        [group] = [row.load() for row in GROUPS if row.name == name]
        assert {
            command.name or command.callback.__name__ for command in group.registered_commands if command.callback
        } >= commands
