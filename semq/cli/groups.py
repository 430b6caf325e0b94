"""The table of commands and their modules. A module is imported when one of its commands is used.

A package with a group of its own adds a row here; a module that adds commands to the group of another module is named
in the row of that group. Importing every module would take longer than most commands do (``tests/cli/test_groups.py``).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import typer

from semq.cli.options.parameters import with_parsed_commands


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A first word of the command line."""

    name: str
    where: str  #: module:name


@dataclass(frozen=True, slots=True)
class CommandGroup(CommandRow):
    """A group of commands; ``where`` names its Typer."""

    help: str
    more: tuple[str, ...] = ()  #: modules that add commands to it
    hidden: bool = False  #: an older name

    def load(self) -> typer.Typer:
        """The group with all of its commands."""
        for module in self.more:
            import_module(module)
        return with_parsed_commands(_named(self.where))


@dataclass(frozen=True, slots=True)
class Top(CommandRow):
    """A single command; ``where`` names its function."""

    settings: dict[str, Any] = field(default_factory=dict)

    def load(self) -> Callable[..., Any]:
        """The function."""
        found: Callable[..., Any] = _named(self.where)
        return found


GROUPS = (
    CommandGroup(
        "msg",
        "semq.cli.messages.message:group",
        "Send, receive, show and manage messages.",
        ("semq.cli.messages.inbox", "semq.cli.messages.acts"),
    ),
    CommandGroup("queue", "semq.cli.messages.queues:group", "Numbers of messages by queue and status; users."),
    CommandGroup("stuck", "semq.cli.messages.stuck:group", "Stuck messages, their causes and next steps."),
    CommandGroup("failed", "semq.cli.messages.failed:group", "Failed documents: list, requeue, remove."),
    CommandGroup(
        "held",
        "semq.cli.hub.held_copies:group",
        "At the hub: copies stored for institutions; refuse them, send them again.",
    ),
    CommandGroup("broker", "semq.cli.node.broker:group", "The AMQP broker of a node: queues, consumers, connections."),
    CommandGroup(
        "worker", "semq.cli.messages.worker:group", "Process received documents by Python functions; list consumers."
    ),
    CommandGroup(
        "node",
        "semq.cli.node.administration:group",
        "State and administration of a node.",
        ("semq.cli.node.enrolment",),
    ),
    CommandGroup(
        "hub",
        "semq.cli.hub.institutions:group",
        "A hub's authority, enrolment of institutions, stores.",
        ("semq.cli.hub.authority",),
    ),
    CommandGroup(
        "cert", "semq.cli.node.certificates:group", "Certificates: show, renew, rotate, revoke; trusted authorities."
    ),
    CommandGroup("token", "semq.cli.node.tokens:group", "Tokens for the HTTP API: make, list, revoke."),
    CommandGroup("audit", "semq.cli.node.audit:group", "The audit log of a node: who did what."),
    CommandGroup("definitions", "semq.cli.hub.definitions:group", "A hub's institutions and their agreements."),
    CommandGroup("ledger", "semq.cli.ledger.proofs:group", "A node's ledger: check its hash chain."),
    CommandGroup("local", "semq.cli.node.process:local", "Run an institution's node."),
    CommandGroup("server", "semq.cli.node.virtual_server:group", "Run many institutions' nodes in one process."),
    CommandGroup("platform", "semq.cli.node.process:platform", "Run the hub."),
    CommandGroup("config", "semq.cli.node.configuration:group", "Check and show configurations."),
    CommandGroup("db", "semq.cli.node.database:group", "A node's database: tables, address, roles for applications."),
    CommandGroup(
        "database",
        "semq.cli.node.database:group",
        "A node's database: tables, address, roles for applications.",
        hidden=True,
    ),
    CommandGroup("errors", "semq.cli.reference.error_codes:group", "Errors: meaning and remedy."),
)
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
TOP = (
    Top("call", "semq.cli.node.call:call"),
    Top("verify", "semq.cli.ledger.proofs:verify"),
    Top("reconcile", "semq.cli.ledger.reconciliation:reconcile", {"context_settings": PASSED_ON}),
    Top("import", "semq.cli.messages.legacy:import_rows", {"name": "import"}),
    Top("doctor", "semq.cli.checkup.doctor:doctor"),
    Top("check", "semq.cli.monitoring.check:check"),
    Top("top", "semq.cli.monitoring.top:top"),
    Top("web", "semq.cli.web:web"),
    Top("version", "semq.cli.reference.version:version"),
    Top("completion", "semq.cli.reference.version:completion"),
)


def chosen(first: str | None) -> tuple[Iterator[CommandGroup], Iterator[Top]]:
    """Return the rows for a command line with this first word: one row if it names one, otherwise all, for help."""
    rows: tuple[CommandRow, ...] = (*GROUPS, *TOP)
    is_named = any(first == row.name for row in rows)
    return (
        (row for row in GROUPS if not is_named or row.name == first),
        (row for row in TOP if not is_named or row.name == first),
    )


def _named(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)
