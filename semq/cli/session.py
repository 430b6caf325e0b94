"""The session of a command: a connection to a node, an output, a time limit.

``on_node`` makes a Typer command of an asynchronous function ``command(session, …)``: it adds the options that all of
them share (--node, --config, --json, --timeout), connects, and closes.
"""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semq.app import Client, IncompleteAnswer
from semq.cli.errors import NoNode, NoUser
from semq.cli.output.printer import Output
from semq.errors import SemqError

if TYPE_CHECKING:
    from semq.config import Settings

TIMEOUT_S = 10.0
# Variables of the command line: their names begin like those of settings, but they are not settings (``environment``).
NODE_VARIABLE, CONFIG_VARIABLE = "SEMQ_NODE", "SEMQ_CONFIG"

NodeOption = Annotated[
    str | None,
    typer.Option(
        "--node", envvar=NODE_VARIABLE, metavar="URL", help="amqp[s]://user:password@host:port", show_envvar=False
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", envvar=CONFIG_VARIABLE, metavar="FILE", help="Configuration file of the node.", show_envvar=False
    ),
]
FileOption = Annotated[
    Path,
    typer.Option("--config", envvar=CONFIG_VARIABLE, metavar="FILE", help="The node's TOML file.", show_envvar=False),
]
InstitutionOption = Annotated[
    str | None,
    typer.Option("--institution", metavar="ID", help="One institution of a configuration file with several."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TimeoutOption = Annotated[float, typer.Option("--timeout", metavar="S", min=0.1, help="Longest wait, in seconds.")]


@dataclass(frozen=True, slots=True)
class Session:
    """Connection to a node, output and time limit of one command."""

    client: Client
    out: Output
    timeout_s: float
    incomplete: list[IncompleteAnswer] = field(default_factory=list)  #: answers without some stores of a hub

    async def ask(self, operation: str, *, repeat: bool = True, **arguments: Any) -> Any:
        """Run an operation of the node; arguments that are None are left out.

        An answer without some stores of a hub is returned; the command ends with its error.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            return await self.client.request(operation, given, timeout_s=self.timeout_s, repeat=repeat)
        except IncompleteAnswer as error:
            if error.result is None:
                raise
            self.incomplete.append(error)
            return error.result


Command = Callable[..., Awaitable[None]]
SHARED: tuple[tuple[str, Any, Any], ...] = (
    ("node", NodeOption, None),
    ("config", ConfigOption, None),
    ("hosted", InstitutionOption, None),
    ("json", JsonOption, False),
    ("timeout", TimeoutOption, TIMEOUT_S),
)


def on_node(command: Command) -> Callable[..., None]:
    """Return the Typer command of ``command(session, …)``."""

    @wraps(command)
    def with_node(
        *, node: str | None, config: Path | None, hosted: str | None, json: bool, timeout: float, **own: Any
    ) -> None:
        url = url_of(node, config, hosted)
        asked = None if node is not None else config
        asyncio.run(_with_client(url, asked, hosted, Output(as_json=json), timeout, command, own))

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


async def _with_client(
    url: str,
    config: Path | None,
    institution: str | None,
    out: Output,
    timeout_s: float,
    command: Command,
    own: dict[str, Any],
) -> None:
    client = Client(url, patience_s=timeout_s)
    try:
        try:
            await client.connect()
        except SemqError:
            if config is not None:
                check_config(config, institution)  # report a fault of the file rather than the failed connection
            raise
        session = Session(client, out, timeout_s)
        await command(session, **own)
        if session.incomplete:
            raise session.incomplete[0]
    finally:
        await client.close()


def url_of(node: str | None, config: Path | None, institution: str | None = None) -> str:
    """Return the URL of a node from the options; a configuration file gives host, port and the first of its users.

    Raises NoNode, NoUser, ConfigUnreadable, ConfigInvalid.
    """
    if node is not None:
        return node
    if config is None:
        raise NoNode
    from semq.config import reach

    door = reach.door_in(config, environment(), institution)
    if not door.port:
        raise NoUser("The configuration lets the node take any free port.", config=str(config))
    return door.url()


def read_config(config: Path, institution: str | None = None) -> "Settings":
    """Read a node's settings from its file and the environment. Raises ConfigUnreadable, ConfigInvalid."""
    from semq.config import load  # imported here: commands without a file start in half the time

    return load(config, environment(), institution)


def institutions_of(config: Path, institution: str | None) -> list[str | None]:
    """Return the institutions that a command is about: the named one, or all of a file with several."""
    from semq.config.file import read_toml
    from semq.config.institutions import INSTITUTIONS, is_virtual

    written = read_toml(config)
    return [*written.get(INSTITUTIONS, {})] if institution is None and is_virtual(written) else [institution]


def check_config(config: Path, institution: str | None) -> None:
    """Check a file, of a node or of a virtual server. Raises ConfigUnreadable, ConfigInvalid."""
    from semq.config.file import read_toml
    from semq.config.institutions import is_virtual, server_settings

    written = read_toml(config)
    if institution is None and is_virtual(written):
        server_settings(written, config)
    else:
        read_config(config, institution)


def environment() -> dict[str, str]:
    """Return the variables of this process without those of the command line, for reading a node's settings."""
    return {name: value for name, value in os.environ.items() if name not in (NODE_VARIABLE, CONFIG_VARIABLE)}
