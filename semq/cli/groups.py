"""The table of commands, and their modules, imported when a command of theirs is used.

A package that brings a group of its own adds a row here; a module that adds commands to another's group is named in
that group's row. Importing every module takes longer than most commands: see ``tests/cli/test_groups.py``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import typer

from semq.cli.options.parameters import made_plain


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A word of the command line."""

    name: str
    where: str  #: module:name


@dataclass(frozen=True, slots=True)
class CommandGroup(CommandRow):
    """A command with commands of its own; ``where`` names its Typer."""

    help: str
    more: tuple[str, ...] = ()  #: modules that add commands to it
    hidden: bool = False  #: an older name

    def load(self) -> typer.Typer:
        """The group with all of its commands."""
        for module in self.more:
            import_module(module)
        return made_plain(_named(self.where))


@dataclass(frozen=True, slots=True)
class Top(CommandRow):
    """A command by itself; ``where`` names its function."""

    settings: dict[str, Any] = field(default_factory=dict)

    def load(self) -> Callable[..., Any]:
        """The function."""
        found: Callable[..., Any] = _named(self.where)
        return found


GROUPS = (
    CommandGroup(
        "msg",
        "semq.cli.messages.message:group",
        "Send, receive, look at and act on messages.",
        ("semq.cli.messages.inbox", "semq.cli.messages.acts"),
    ),
    CommandGroup("queue", "semq.cli.messages.queues:group", "How many messages stand where."),
    CommandGroup("stuck", "semq.cli.messages.stuck:group", "Messages that do not move, why, and what to do."),
    CommandGroup("failed", "semq.cli.messages.failed:group", "What keeps failing: look, requeue, remove."),
    CommandGroup(
        "held",
        "semq.cli.hub.held_copies:group",
        "At the hub: what is stored for institutions; refuse it, send it again.",
    ),
    CommandGroup("broker", "semq.cli.node.broker:group", "The AMQP broker of a node: queues, consumers, connections."),
    CommandGroup(
        "worker", "semq.cli.messages.worker:group", "Run functions over what arrives; list who takes documents."
    ),
    CommandGroup(
        "node", "semq.cli.node.administration:group", "What a node is and how it does.", ("semq.cli.node.enrolment",)
    ),
    CommandGroup("hub", "semq.cli.hub.institutions:group", "A hub's authority and the institutions that enrol."),
    CommandGroup("cert", "semq.cli.node.certificates:group", "Certificates: look, renew, rotate, revoke."),
    CommandGroup("token", "semq.cli.node.tokens:group", "Tokens for the HTTP API: make, list, revoke."),
    CommandGroup("definitions", "semq.cli.hub.definitions:group", "A hub's institutions and what they have agreed."),
    CommandGroup("ledger", "semq.cli.ledger.proofs:group", "What a node has written down, and whether it is still so."),
    CommandGroup("local", "semq.cli.node.process:local", "Run an institution's node."),
    CommandGroup("platform", "semq.cli.node.process:platform", "Run the hub."),
    CommandGroup("config", "semq.cli.node.configuration:group", "Check and show configurations."),
    CommandGroup("db", "semq.cli.node.database:group", "A node's database: tables, address, roles for applications."),
    CommandGroup(
        "database",
        "semq.cli.node.database:group",
        "A node's database: tables, address, roles for applications.",
        hidden=True,
    ),
    CommandGroup("errors", "semq.cli.reference.error_codes:group", "What an error means and what to do."),
)
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
TOP = (
    Top("call", "semq.cli.node.call:call"),
    Top("verify", "semq.cli.ledger.proofs:verify"),
    Top("reconcile", "semq.cli.ledger.reconciliation:reconcile", {"context_settings": PASSED_ON}),
    Top("doctor", "semq.cli.checkup.doctor:doctor"),
    Top("check", "semq.cli.monitoring.check:check"),
    Top("top", "semq.cli.monitoring.top:top"),
    Top("web", "semq.cli.web:web"),
    Top("version", "semq.cli.reference.version:version"),
    Top("completion", "semq.cli.reference.version:completion"),
)


def chosen(first: str | None) -> tuple[Iterator[CommandGroup], Iterator[Top]]:
    """The rows for a command line that begins with this word: one row where it names one, else all, for help."""
    rows: tuple[CommandRow, ...] = (*GROUPS, *TOP)
    is_named = any(first == row.name for row in rows)
    return (
        (row for row in GROUPS if not is_named or row.name == first),
        (row for row in TOP if not is_named or row.name == first),
    )


def _named(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)
