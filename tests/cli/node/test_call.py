"""``semq call``; and the operations and arguments that all commands use.

Every command runs with each of its options at a simulated node.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
import typer

from local_node.operations.table import OPERATIONS as LOCAL
from local_node.virtual.operations import OPERATIONS as SERVER
from platform_node.operations.table import OPERATIONS as HUB
from semq.app import Fate, Sent
from semq.cli import session
from semq.cli.errors import BadArgument
from semq.cli.groups import GROUPS
from semq.cli.node.call import argument_rows, read_argument
from semq.service.errors import BadArguments
from semq.service.operations.arguments import read_arguments
from semq.service.operations.operation import Operation
from tests.app.network import Network
from tests.cli.command import semq
from tests.cli.test_output_of_commands import BAD, COMMANDS, LK0, UNSAFE, SimulatedNode

TABLES = [{row.name: row for row in table} for table in (LOCAL, HUB, SERVER)]
OPERATIONS: dict[str, list[Operation]] = {
    name: [table[name] for table in TABLES if name in table] for name in TABLES[0] | TABLES[1] | TABLES[2]
}
# Option | value in this test; other options get "1"
VALUES = {
    "side": "all", "since": "2h", "older_than": "2h", "wait": "accepted", "expires": "2h", "from": "2031-03-01",
    "to": "2031-03-01", "head": "1:00", "ack2": "--ack2", "format": "openmetrics", "scope": "viewer", "role": "viewer",
    "outcome": "done", "state": "NEW",
}  # fmt: skip
LEFT_OUT_OPTIONS = {"node", "config", "json", "timeout", "help", "out", "folder", "yes", "add", "dry_run"}


class Recording(SimulatedNode):
    """A simulated node that records requests, and the faults of their operations and arguments."""

    asked: ClassVar[set[str]] = set()
    faults: ClassVar[list[str]] = []
    arguments: ClassVar[list[tuple[str, Mapping[str, Any]]]] = []

    async def request(self, operation: str, arguments: Mapping[str, Any] | None = None, **_: Any) -> Any:
        self.asked.add(operation)
        self.arguments.append((operation, dict(arguments or {})))
        rows = OPERATIONS.get(operation, [])
        if not rows:
            self.faults.append(f"there is no operation {operation}")
        texts = []
        # Commands repeat texts of answers in requests. Their NUL characters would be refused, so they are removed here.
        given = json.loads(json.dumps(dict(arguments or {})).replace("\\u0000", ""))
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
        return Sent(LK0, BAD, False, BAD)  # no operation: a document is published to an exchange of its own

    async def wait_for_delivery(self, name: str, *_: Any) -> Fate:
        await self.look(name)
        return Fate(BAD, BAD, BAD)


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)  # `msg receive --into 1` writes a file
    monkeypatch.setattr(session, "Client", Recording)
    Recording.asked.clear()
    Recording.faults.clear()
    Recording.arguments.clear()
    file = tmp_path / "file"
    file.write_text("x = 1")
    return file


def test_commands_use_existing_operations_and_every_operation_is_used(recording: Path) -> None:
    for command, words in COMMANDS.items():
        given = [str(recording) if word == "FILE" else word for word in words]
        semq(*command.split(), *given, "--node", "simulated", stdin=b"x")
        first_argument = [word for word in given if not word.startswith("-")][:1] if command != "msg send" else []
        for positional in (first_argument, []):
            semq(*command.split(), *positional, *_options(command), "--node", "simulated", stdin=b"x")
    semq("cert", "trust", "--add", str(recording), "--node", "simulated")
    semq("call", "--list", "--node", "simulated")
    assert not Recording.faults
    used_by_programs = {name for name, rows in OPERATIONS.items() if all(row.used_by for row in rows)}
    assert Recording.asked | used_by_programs == set(OPERATIONS)


def test_commands_without_options_use_the_defaults_of_the_operations(recording: Path) -> None:
    # Arguments that commands send by themselves: the size of a page, and others.
    pages = {(f"broker.{name}", "limit") for name in ("queues", "consumers", "connections", "channels", "exchanges")}
    pages |= {
        ("broker.bindings", "limit"),
        ("worker.list", "limit"),
        ("held.list", "limit"),
        ("failed.list", "limit"),
        ("stuck.list", "limit"),
    }
    others = {
        ("node.drain", "timeout_s"),  # --timeout, which all commands have
        ("msg.trace", "parties"),  # the command asks all parties unless --here is given
        ("msg.body", "offset"),  # the command requests a body block by block
        ("definitions.import", "expect"),  # the version with which the file was compared
        ("queue.census", "fresh"),  # the commands of group queue show what is there now
    }
    for command, words in COMMANDS.items():
        semq(*command.split(), *(str(recording) if word == "FILE" else word for word in words), "--node", "simulated")
    found = {
        (operation, name)
        for operation, arguments in Recording.arguments
        for row in OPERATIONS[operation]
        for name, default in _defaults(row).items()
        if arguments.get(name) not in (None, "", [], default)
    }
    positional = {("held.refuse", "ids"), ("held.resend", "ids")}
    assert found - positional == pages | others


def _defaults(row: Operation) -> dict[str, Any]:
    fields = msgspec.structs.fields(row.arguments)
    return {field.encode_name: field.default for field in fields if field.default is not msgspec.NODEFAULT}


def _options(command: str) -> Iterator[str]:
    for option in _command(command).params:
        if option.param_type_name != "option" or option.name in LEFT_OUT_OPTIONS or option.hidden:
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


# ----------------------------------------------------------------------------------------------------- semq call


def test_an_operation_is_called_by_its_name(network: Network) -> None:
    node = f"--node={network.sender.url}"
    assert semq("call", "node.status", node).data["kind"] == "local"
    page = semq("call", "msg.list", "side=outbound", "limit=1", node).data
    assert len(page["rows"]) <= 1
    semq("call", "failed.remove", 'ids=["0"]', node).fails(1, "SEMQ-2102", "ids[0]")
    semq("call", "msg.list", "limt=1", node).fails(1, "SEMQ-2102", "did you mean limit?")
    semq("call", "msg.lost", node).fails(1, "SEMQ-2101")
    semq("token", "create", "NAME", "--scope", "reader", node).fails(1, "SEMQ-2102", "none of admin, events, operator")


def test_operations_and_their_arguments_are_listed(network: Network) -> None:
    node = f"--node={network.hub.url}"
    names = [line.split()[0] for line in semq("call", "--list", node).out.splitlines()[2:] if not line.startswith(" ")]
    assert names == sorted(TABLES[1])
    result = semq("call", "--list", "held.refuse", node)
    assert result.out.startswith("held.refuse (act, operator)  Refuse copies and notify their senders")
    rows = {line.split()[0]: line for line in result.out.splitlines()[3:] if not line.startswith(" ")}
    assert "required" in rows["why"]
    assert "integer from 1 to 1000" in rows["limit"]
    assert semq("call", "--list", "held.refuse", "--json", node).data["role"] == "operator"
    semq("call", "--list", "held.refuze", node).fails(1, "SEMQ-1001", "no such operation")


@pytest.mark.parametrize("row", [row for rows in OPERATIONS.values() for row in rows], ids=lambda row: row.name)
def test_the_arguments_of_every_operation_can_be_shown(row: Operation) -> None:
    shown = list(argument_rows(row.described().arguments))
    assert [name for name, *_ in shown] == list(row.arguments.__struct_encode_fields__)
    assert all(value and meaning for _, value, _, meaning in shown)


@pytest.mark.usefixtures("recording")
def test_descriptions_of_operations_are_safe_on_a_terminal() -> None:
    for words in (["--list"], ["--list", BAD], ["--list", BAD, "--json"], ["msg.show"]):
        result = semq("call", *words, "--node", "simulated")
        assert result.status == 0, result
        assert not UNSAFE.search(result.out + result.err), result


@pytest.mark.parametrize("word", ["limit", "=5", "ids=[1", ""])
def test_an_invalid_argument_is_refused(word: str) -> None:
    with pytest.raises(BadArgument):
        read_argument(word)


def test_values_are_texts_or_json() -> None:
    assert [read_argument(word)[1] for word in ("a=5", "a=", "a=x=y", 'a=["5"]', 'a={"b": 1}', 'a="5"')] == [
        "5", "", "x=y", ["5"], {"b": 1}, "5",
    ]  # fmt: skip
