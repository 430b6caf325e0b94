"""Commands and operations fit: commands use only operations and arguments that exist, and every operation is used.

The node is played by `test_output_of_commands.Played`; each command is given every option that it has.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import typer

from local_node.operations.table import OPERATIONS as LOCAL
from platform_node.operations.table import OPERATIONS as HUB
from semq.app import Fate, Sent
from semq.cli import session
from semq.cli.groups import GROUPS
from semq.service.errors import BadArguments
from semq.service.operations.arguments import read_arguments
from semq.service.operations.operation import Operation
from tests.cli.command import semq
from tests.cli.test_output_of_commands import BAD, COMMANDS, LK0, Played

TABLES = [{row.name: row for row in table} for table in (LOCAL, HUB)]
OPERATIONS: dict[str, list[Operation]] = {
    name: [table[name] for table in TABLES if name in table] for name in TABLES[0] | TABLES[1]
}
# Option | a value of it; others have "1"
VALUES = {
    "side": "all", "since": "2h", "older_than": "2h", "wait": "accepted", "expires": "2h", "from": "2031-03-01",
    "to": "2031-03-01", "head": "1:00", "ack2": "--ack2", "format": "openmetrics",
}  # fmt: skip
NOT_GIVEN = {"node", "config", "json", "timeout", "help", "out", "folder", "yes", "add", "dry_run"}


class Recording(Played):
    """A node that answers everything, and notes what it is asked."""

    asked: ClassVar[set[str]] = set()
    faults: ClassVar[list[str]] = []

    async def request(self, operation: str, arguments: Mapping[str, Any] | None = None, **_: Any) -> Any:
        self.asked.add(operation)
        rows = OPERATIONS.get(operation, [])
        if not rows:
            self.faults.append(f"there is no operation {operation}")
        texts = []
        given = json.loads(json.dumps(dict(arguments or {})).replace("\\u0000", ""))  # from answers of the played node
        for row in rows:
            try:
                read_arguments(operation, row.arguments, given)
                break
            except BadArguments as error:
                texts.append(error.text)
        else:
            self.faults.extend(texts)
        answer = await super().request(operation)
        return answer | {"version": 7} if operation == "definitions.diff" else answer

    async def look(self, name: str, **_: Any) -> Any:
        return await self.request("msg.show", {"id": name})

    async def send(self, *_: Any, **__: Any) -> Sent:
        return Sent(LK0, BAD, False, BAD)  # published to the exchange for documents

    async def wait_for_delivery(self, name: str, *_: Any) -> Fate:
        await self.look(name)
        return Fate(BAD, BAD, BAD)


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(session, "Client", Recording)
    Recording.asked.clear()
    Recording.faults.clear()
    file = tmp_path / "file"
    file.write_text("x = 1")
    return file


def test_every_command_uses_what_exists_and_every_operation_is_used(recording: Path) -> None:
    for command, words in COMMANDS.items():
        given = [str(recording) if word == "FILE" else word for word in words]
        semq(*command.split(), *given, "--node", "played", stdin=b"x")
        named = [word for word in given if not word.startswith("-")][:1] if command != "msg send" else []
        for positional in (named, []):
            semq(*command.split(), *positional, *_options(command), "--node", "played", stdin=b"x")
    semq("cert", "trust", "--add", str(recording), "--node", "played")
    assert not Recording.faults
    elsewhere = {name for name, rows in OPERATIONS.items() if all(row.used_by for row in rows)}
    assert Recording.asked | elsewhere == set(OPERATIONS)


def _options(command: str) -> Iterator[str]:
    for option in _command(command).params:
        if option.param_type_name != "option" or option.name in NOT_GIVEN or option.hidden:
            continue
        value = VALUES.get(option.opts[0].strip("-").replace("-", "_"), "1")
        if value.startswith("--") or option.is_flag:
            yield value if value.startswith("--") else option.opts[0]
        else:
            yield from (option.opts[0], value)


def _command(words: str) -> Any:
    first, *rest = words.split()
    group = next(row for row in GROUPS if row.name == first)
    found: Any = typer.main.get_group(group.load())
    for word in rest:
        found = found.commands[word]
    return found
