"""The session of a command: connection to a node, output and time limit; the options that commands share."""

import asyncio
import getpass
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from msgspec import Struct, field

from semq.app import Client, IncompleteAnswer
from semq.app.answers import T, read_answer
from semq.app.client import is_node_of
from semq.app.errors import RefusedByNode
from semq.cli.errors import NoNodeNamed, NoPort, OtherNode
from semq.cli.node_kinds import name_kind
from semq.cli.output.printer import Output
from semq.errors import SemqError

if TYPE_CHECKING:
    from semq.answers.messages import MessageRow
    from semq.config import Settings

TIMEOUT_S = 10.0  # default of --timeout
# Variables of the command line. Variables of settings begin with SEMQ_, too: see `environment`.
NODE_VARIABLE, CONFIG_VARIABLE, PERSON_VARIABLE = "SEMQ_NODE", "SEMQ_CONFIG", "SEMQ_PERSON"

NodeOption = Annotated[
    str | None,
    typer.Option(
        "--node",
        envvar=NODE_VARIABLE,
        metavar="URL",
        help="URL of the node, with user and password: see `semq --help`.",
        show_envvar=False,
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", envvar=CONFIG_VARIABLE, metavar="FILE", help="The node's TOML file.", show_envvar=False),
]
FileOption = Annotated[
    Path,
    typer.Option("--config", envvar=CONFIG_VARIABLE, metavar="FILE", help="The node's TOML file.", show_envvar=False),
]
InstitutionOption = Annotated[
    str | None,
    typer.Option("--institution", metavar="ID", help="The institution, if the file has several."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
TimeoutOption = Annotated[float, typer.Option("--timeout", metavar="S", min=0.1, help="Longest wait, in seconds.")]
RowsOption = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="Number of rows, at most.")]


class NamedNode(NamedTuple):
    """The node of a command."""

    url: str
    name: str = ""  #: name that it must announce, for instance "1.10008"; empty: any

    def check(self, client: Client) -> None:
        """Raise OtherNode if another node has answered; a node that announces no name is accepted."""
        if not is_node_of(client, self.name):
            raise OtherNode(address=client.address, answers=client.node, configured=self.name)


class Session(Struct, frozen=True):
    """Connection, output and time limit of one command."""

    client: Client
    out: Output
    timeout_s: float
    incomplete: list[IncompleteAnswer] = field(default_factory=list)  #: an error for each incomplete answer of a hub

    async def ask(self, operation: str, **arguments: object) -> Any:
        """Run an operation of the node and return its result; arguments that are None are left out.

        The request is sent again after a lost connection. If some stores of a hub do not answer, this returns
        the result of the stores that answer, and `on_node` raises IncompleteAnswer after the command has printed it.
        """
        return await self._request(operation, arguments, repeat=True)

    async def ask_once(self, operation: str, **arguments: object) -> Any:
        """Do what ``ask`` does, without a second request after a lost connection."""
        return await self._request(operation, arguments, repeat=False)

    async def _request(self, operation: str, arguments: Mapping[str, object], *, repeat: bool) -> Any:
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            return await self.client.request(
                operation, given, timeout_s=self.timeout_s, repeat=repeat, by=_person(self.client)
            )
        except IncompleteAnswer as error:
            if error.result is None:
                raise
            self.incomplete.append(error)
            return error.result

    async def read(self, type_: type[T], operation: str, **arguments: object) -> T:
        """Run an operation as ``ask`` does; return its result as a struct. Raises UnreadableAnswer."""
        return read_answer(type_, await self.ask(operation, **arguments))

    async def rows(self, operation: str, limit: int, **arguments: object) -> "list[MessageRow]":
        """Return rows of a list, up to ``limit``, from as many pages as necessary."""
        rows: list[MessageRow] = []
        async for page in self.pages(operation, limit, **arguments):
            rows += page
            if len(rows) >= limit:
                break
        return rows[:limit]

    async def pages(self, operation: str, limit: int, **arguments: object) -> "AsyncIterator[list[MessageRow]]":
        """Yield the pages of a list, each with at most ``limit`` rows."""
        place: Mapping[str, int] | None = {}
        while place is not None:
            page = await self.ask(operation, limit=limit, **arguments, **place)
            yield page["rows"]
            place = page["next"]


def _person(client: Client) -> str:
    """Return the name of the person for the ledger and the audit log: SEMQ_PERSON, or the user of the operating system.

    With sudo it is the user who called sudo. It is empty for root, for a user id without an account, and if the node's
    user has the same name.
    """
    try:
        name = os.environ.get(PERSON_VARIABLE) or os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # no account has the user id
        name = ""
    return "" if name in (client.user, "root") else name


Command = Callable[..., Awaitable[None]]
# Parameter of every command on a node | option | default
SHARED: tuple[tuple[str, object, object], ...] = (
    ("node", NodeOption, None),
    ("config", ConfigOption, None),
    ("hosted", InstitutionOption, None),  # not ``institution``: some commands have an argument of that name
    ("json", JsonOption, False),
    ("timeout", TimeoutOption, TIMEOUT_S),
)


def on_node(command: Command) -> Callable[..., None]:
    """Return a Typer command with the options in SHARED, which runs ``command(session, …)`` on a connected node."""

    @wraps(command)
    def with_node(
        *, node: str | None, config: Path | None, hosted: str | None, json: bool, timeout: float, **own: object
    ) -> None:
        named = named_node(node, config, hosted)
        used_config = config if node is None else None
        asyncio.run(_run_on_node(named, used_config, hosted, Output(as_json=json), timeout, command, own))

    signature = inspect.signature(command, eval_str=True)
    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()][1:]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in SHARED
    ]
    parameters = [*own, *shared]
    with_node.__signature__ = signature.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]
    with_node.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_node


async def _run_on_node(
    node: NamedNode,
    config: Path | None,
    institution: str | None,
    out: Output,
    timeout_s: float,
    command: Command,
    arguments: dict[str, object],
) -> None:
    client = Client(node.url, patience_s=timeout_s)
    try:
        try:
            await client.connect()
        except SemqError:
            if config is not None:
                check_config(config, institution)  # a fault of the file explains more than the failed connection
            raise
        node.check(client)
        session = Session(client, out, timeout_s)
        await command(session, **arguments)
        if session.incomplete:
            raise session.incomplete[0]
    except RefusedByNode as error:
        name_kind(error, client.node)
        raise
    finally:
        await client.close()


def named_node(node: str | None, config: Path | None, institution: str | None = None) -> NamedNode:
    """Return the node of option --node, or the node of the configuration file with its URL for an administrator.

    Raises NoNodeNamed, NoPort, ConfigUnreadable, ConfigInvalid.
    """
    if node is not None:
        return NamedNode(node)
    if config is None:
        raise NoNodeNamed
    from semq.config import reach

    address = reach.admin_address_in(config, environment(), institution)
    if not address.port:
        raise NoPort("The configuration lets the node use any free port.", config=str(config))
    return NamedNode(address.url(), address.name)


def read_config(config: Path, institution: str | None = None) -> "Settings":
    """Read a node's settings from its file and the environment. Raises ConfigUnreadable, ConfigInvalid."""
    # Imported here, because the import takes as long as the start of other commands.
    from semq.config import load

    return load(config, environment(), institution)


def institutions_of(config: Path, institution: str | None) -> list[str | None]:
    """Return ``[institution]``; if it is None, all institutions in the file of a virtual server.

    Raises ConfigUnreadable.
    """
    from semq.config.file import read_toml
    from semq.config.institutions import INSTITUTIONS, is_virtual

    written = read_toml(config)
    return [*written.get(INSTITUTIONS, {})] if institution is None and is_virtual(written) else [institution]


def check_config(config: Path, institution: str | None) -> None:
    """Check the file of a node or of a virtual server. Raises ConfigUnreadable, ConfigInvalid."""
    from semq.config.file import read_toml
    from semq.config.institutions import is_virtual, server_settings

    written = read_toml(config)
    if institution is None and is_virtual(written):
        server_settings(written, config)
    else:
        read_config(config, institution)


def environment() -> dict[str, str]:
    """Return the environment variables of this process, without those of the command line."""
    own = (NODE_VARIABLE, CONFIG_VARIABLE, PERSON_VARIABLE)
    return {name: value for name, value in os.environ.items() if name not in own}
