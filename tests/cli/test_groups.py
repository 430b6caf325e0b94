"""What a command loads: one that lists imports no part of a node, and no package that only nodes need."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import semq.cli
from semq.cli.groups import GROUPS, TOP, Row, chosen

# Nothing of these is loaded by a command that asks a node and prints the answer.
FORBIDDEN = {
    "alembic", "apscheduler", "cryptography", "psycopg", "sqlalchemy", "structlog", "uvloop",
    "local_node", "platform_node", "migrations", "spark_reconcile",
    "semq.broker", "semq.config", "semq.engine", "semq.pki", "semq.seal", "semq.service", "semq.store",
}  # fmt: skip
NODE = ("--node=amqp://u:p@127.0.0.1:1", "--timeout=0.1")  # where nobody answers: what is imported by then is all
LISTING = (
    ("msg", "list", *NODE),
    ("msg", "show", "1", *NODE),
    ("msg", "trace", "1", *NODE),
    ("queue", "list", *NODE),
    ("stuck", "list", *NODE),
    ("failed", "list", *NODE),
    ("held", "list", *NODE),
    ("node", "status", *NODE),
    ("node", "list", *NODE),
    ("node", "health", *NODE),
    ("cert", "list", *NODE),
    ("version",),
)  # fmt: skip
CONFIG = """
[node]
kind = "local"
id = "10008"
data_dir = "data"
[amqp]
port = 1
users = { app = "password" }
[hub]
url = "amqp://127.0.0.1:1"
password = "password"
"""
# A process of its own, since this one has loaded everything: runs a command, prints what it imported.
PROBE = "import sys; from semq.cli.main import run; run(sys.argv[1:]); print('\\n'.join(sys.modules))"


def loaded(*words: str) -> set[str]:
    """The modules that a command has imported when it is over."""
    done = subprocess.run([sys.executable, "-P", "-c", PROBE, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("words", LISTING, ids=" ".join)
def test_a_command_that_lists_loads_no_part_of_a_node(words: tuple[str, ...]) -> None:
    modules = loaded(*words)
    assert "semq.cli.main" in modules
    assert among(FORBIDDEN, modules) == set()


def test_a_command_that_reads_the_configuration_of_its_node_loads_that_besides(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(CONFIG)
    assert among(FORBIDDEN, loaded("msg", "list", f"--config={file}", "--timeout=0.1")) == {"semq.config"}


def among(names: set[str], modules: set[str]) -> set[str]:
    """Those of the names of which a module was loaded."""
    return {name for name in names if any(f"{module}.".startswith(f"{name}.") for module in modules)}


def test_a_command_line_chooses_its_row_and_help_chooses_all() -> None:
    rows: tuple[Row, ...] = (*GROUPS, *TOP)
    for row in rows:
        groups, tops = chosen(row.name)
        assert [one.name for one in groups] + [one.name for one in tops] == [row.name]
    for first in (None, "--help", "nonsense"):
        groups, tops = chosen(first)
        assert (tuple(groups), tuple(tops)) == (GROUPS, TOP)


def test_no_module_that_adds_commands_is_forgotten() -> None:
    """What is not named in the row of its group is no command at all, and nobody hears of it."""
    named = {module for row in GROUPS for module in (row.where.partition(":")[0], *row.more)}
    adding = {
        f"semq.cli.{file.stem}"
        for file in Path(semq.cli.__file__).parent.glob("*.py")
        if re.search(r"^@\w+\.command\(", file.read_text("utf-8"), re.MULTILINE)
    }
    assert adding - named == set()
    foreign = {"msg": {"cancel", "receive", "prove"}, "node": {"enroll", "status"}}
    for name, commands in foreign.items():
        [group] = [row.load() for row in GROUPS if row.name == name]
        assert {one.name or one.callback.__name__ for one in group.registered_commands if one.callback} >= commands
