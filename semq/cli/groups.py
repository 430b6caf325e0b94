"""The table of commands and their modules, for `main`.

A module is imported only if the first word of the command line names its group. All modules are imported for the help
of ``semq`` itself, and for an unknown word.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import typer
from msgspec import Struct, field

from semq.cli.options.parameters import with_parsed_commands


class CommandRow(Struct, frozen=True):
    """A command or a group of commands; its name is the first word of the command line."""

    name: str
    where: str  #: the object that `load` imports, as "module:name"


class CommandGroup(CommandRow, frozen=True):
    """A group of commands; ``where`` names its Typer."""

    help: str
    more_modules: tuple[str, ...] = ()  #: further modules that add commands to the group
    hidden: bool = False  #: an older name, which the help leaves out

    def load(self) -> typer.Typer:
        """Import the group with all of its commands."""
        for module in self.more_modules:
            import_module(module)
        return with_parsed_commands(_import_object(self.where))


class TopCommand(CommandRow, frozen=True):
    """A command without a group; ``where`` names its function."""

    settings: dict[str, Any] = field(default_factory=dict)  #: further arguments of ``Typer.command``

    def load(self) -> Callable[..., object]:
        function: Callable[..., object] = _import_object(self.where)
        return function


GROUPS = (
    CommandGroup(
        "msg",
        "semq.cli.messages.message:group",
        "Send, receive, show and manage documents.",
        ("semq.cli.messages.inbox", "semq.cli.messages.acts"),
    ),
    CommandGroup(
        "queue",
        "semq.cli.messages.queues:group",
        "Counts of documents by queue and status, backlog by partner, users of institutions.",
    ),
    CommandGroup("figures", "semq.cli.monitoring.figures:group", "Documents over time, latency and backlog."),
    CommandGroup("stuck", "semq.cli.messages.stuck:group", "Stuck documents, their causes and next steps."),
    CommandGroup("failed", "semq.cli.messages.failed:group", "Failed documents: list, show, park, requeue, remove."),
    CommandGroup(
        "held",
        "semq.cli.hub.held_copies:group",
        "Copies that a hub stores for institutions: list, count, refuse, send again.",
    ),
    CommandGroup("broker", "semq.cli.node.broker:group", "The AMQP broker of a node: queues, consumers, connections."),
    CommandGroup(
        "worker", "semq.cli.messages.worker:group", "Process received documents by Python functions; list workers."
    ),
    CommandGroup(
        "node",
        "semq.cli.node.administration:group",
        "Make, run, enrol and administer a node.",
        ("semq.cli.node.process", "semq.cli.node.enrolment"),
    ),
    CommandGroup(
        "hub",
        "semq.cli.hub.institutions:group",
        "A hub's authority, instances and stores; enrolment of institutions.",
        ("semq.cli.hub.authority",),
    ),
    CommandGroup(
        "cert", "semq.cli.node.certificates:group", "Certificates: show, renew, rotate, revoke; trusted authorities."
    ),
    CommandGroup("token", "semq.cli.node.tokens:group", "Tokens for the HTTP API: create, list, revoke."),
    CommandGroup("user", "semq.cli.node.users:group", "Persons who may sign in and act: list, add, roles, password."),
    CommandGroup("audit", "semq.cli.node.audit:group", "The audit log of a node: acts, their users and outcomes."),
    CommandGroup("definitions", "semq.cli.hub.definitions:group", "A hub's institutions and their agreements."),
    CommandGroup("ledger", "semq.cli.ledger.proofs:group", "A node's ledger: check its hash chain."),
    CommandGroup("server", "semq.cli.node.virtual_server:group", "Run many institutions' nodes in one process."),
    CommandGroup("config", "semq.cli.node.configuration:group", "Check and show configurations."),
    CommandGroup(
        "db",
        "semq.cli.node.database:group",
        "A node's database: version of the tables, backups, URL, roles for applications.",
        ("semq.cli.node.backup",),
    ),
    CommandGroup(
        "database",
        "semq.cli.node.database:group",
        "A node's database: version of the tables, backups, URL, roles for applications.",
        ("semq.cli.node.backup",),
        hidden=True,
    ),
    CommandGroup("errors", "semq.cli.reference.error_codes:group", "Errors: meaning and remedy."),
)
PASS_ARGUMENTS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
TOP_COMMANDS = (
    TopCommand("demo", "semq.cli.demo:demo", {"context_settings": PASS_ARGUMENTS_ON}),
    TopCommand("call", "semq.cli.node.call:call"),
    TopCommand("verify", "semq.cli.ledger.proofs:verify"),
    TopCommand("reconcile", "semq.cli.ledger.reconciliation:reconcile", {"context_settings": PASS_ARGUMENTS_ON}),
    TopCommand("import", "semq.cli.messages.legacy:import_rows", {"name": "import"}),
    TopCommand("doctor", "semq.cli.checkup.doctor:doctor"),
    TopCommand("support-bundle", "semq.cli.checkup.support:support_bundle"),
    TopCommand("capacity", "semq.cli.reference.capacity:capacity"),
    TopCommand("check", "semq.cli.monitoring.check:check"),
    TopCommand("top", "semq.cli.monitoring.top:top"),
    TopCommand("web", "semq.cli.web:web"),
    TopCommand("version", "semq.cli.reference.version:version"),
    TopCommand("completion", "semq.cli.reference.version:completion"),
)


def rows_for(first_word: str | None) -> tuple[Iterator[CommandGroup], Iterator[TopCommand]]:
    """Return the groups and the top commands with this name; if there are none, all groups and top commands."""
    rows: tuple[CommandRow, ...] = (*GROUPS, *TOP_COMMANDS)
    is_name = any(row.name == first_word for row in rows)
    return (
        (row for row in GROUPS if not is_name or row.name == first_word),
        (row for row in TOP_COMMANDS if not is_name or row.name == first_word),
    )


def _import_object(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)
