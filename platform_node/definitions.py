"""Definitions: the institutions of a hub and their agreements, as one TOML document that is stored, compared and put in
force.

::

    [nodes."10008"]                     # beside those in the hub's configuration file
    name = "Lindwurm Trading"
    users = ["desk", "sales"]           # one document may be sent to all of them: 4.10008

    [groups.retailers]                  # one document may be sent to all of them: 3.retailers
    members = ["56001", "56002"]

    [[agreements]]                      # the first one that fits a document counts
    from = ["10008"]                    # "*": everybody
    to = ["56001"]
    types = ["order", "trade/invoice"]  # type, domain/type or domain/type/subtype; left out: all
    bytes_max = 1_000_000
    per_minute = 600
    waiting_max = 10_000
    encrypt = true

With at least one agreement, only documents with an agreement are allowed; without any, the configuration's
``may_send_to`` decides. Unknown keys are errors, so that a misspelt restriction is noticed.
"""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from platform_node.errors import DefinitionsRefused
from semq.config.nearest import did_you_mean
from semq.foreign_text import shortened
from semq.umx_t.agreement import ANY, Limit, Pattern, Terms
from semq.umx_t.pieces import PIECES_USER
from semq.umx_t.records import GROUP_MAX

DOCUMENT_MAX = 4 * 1024 * 1024
GROUPS_MAX, MEMBERS_MAX = 200, 10_000  # members in all groups together
NODE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Institution(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node that the hub serves, and its users to whom others may send one document together."""

    name: str = ""
    users: tuple[str, ...] = ()


NOBODY = Institution()


class Agreement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agreement: the documents that a sender may send to a receiver."""

    from_: tuple[str, ...] = msgspec.field(name="from")
    to: tuple[str, ...]
    types: tuple[Pattern, ...] = (ANY,)
    bytes_max: Limit = 0
    per_minute: Limit = 0
    waiting_max: Limit = 0
    encrypt: bool = False

    def is_between(self, source: str, target: str) -> bool:
        """Return whether the agreement is about documents from one node id to another."""
        return (ANY in self.from_ or source in self.from_) and (ANY in self.to or target in self.to)

    @property
    def terms(self) -> Terms:
        """Return the restrictions of the agreement for the sender's node."""
        return Terms(
            types=self.types,
            bytes_max=self.bytes_max,
            per_minute=self.per_minute,
            waiting_max=self.waiting_max,
            encrypt=self.encrypt,
        )


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Institutions to which one document may be sent together."""

    members: tuple[str, ...]


class HubDefinitions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a definitions document."""

    nodes: dict[str, Institution] = {}
    agreements: tuple[Agreement, ...] = ()
    groups: dict[str, Group] = {}


def read_definitions(document: str, configured: Sequence[str] | None = None) -> HubDefinitions:
    """Read a document in TOML; ``configured`` are the institutions of the hub's configuration file.

    Without them names are not checked: imported definitions stay in force when an institution leaves the configuration.

    Raises DefinitionsRefused with the first fault: not TOML, an unknown key, a value of the wrong kind, an unknown
    institution.
    """
    if len(document) > DOCUMENT_MAX:
        raise DefinitionsRefused("The document is too long.", size=len(document))
    written: dict[str, Any] = {}
    try:
        written = tomllib.loads(document)
        read = msgspec.convert(written, HubDefinitions)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DefinitionsRefused(fault=shortened(str(error), 300)) from error
    except msgspec.ValidationError as error:
        raise DefinitionsRefused(fault=shortened(_located(written, str(error)), 300)) from error
    known = {*read.nodes, *(configured or ()), ANY}
    for node in read.nodes:
        if not NODE_ID.fullmatch(node):
            raise DefinitionsRefused(
                f"{node[:80]!r} is no name of a node: letters, digits, '-' and '_' only, 64 at most."
            )
    _check_users(read.nodes)
    _check_groups(read.groups, None if configured is None else known - {ANY})
    for number, one in enumerate(read.agreements, 1):
        if not one.from_ or not one.to or not one.types:
            raise DefinitionsRefused(f"Agreement {number} needs from, to and types that are not empty.")
        strangers = [name for name in (*one.from_, *one.to) if configured is not None and name not in known]
        if strangers:
            raise DefinitionsRefused(
                f"Agreement {number} names {strangers[0][:80]!r}, which is not an institution of this hub"
                f"{did_you_mean(strangers[0], known - {ANY}) or '.'}"
            ).with_remedy(f'Correct the name, or add the institution: a table [nodes."{strangers[0][:64]}"].')
    return read


def _check_users(nodes: Mapping[str, Institution]) -> None:
    """Refuse names that are none, repeated names, and too many users."""
    if sum(len(one.users) for one in nodes.values()) > MEMBERS_MAX:
        raise DefinitionsRefused(f"More than {MEMBERS_MAX} users of all institutions.")
    for node, one in nodes.items():
        bad = [name for name in one.users if not NODE_ID.fullmatch(name) or name == PIECES_USER]
        if bad:
            raise DefinitionsRefused(
                f"{bad[0][:80]!r} is no name of a user: letters, digits, '-' and '_' only, 64 at most, and not"
                f" {PIECES_USER!r}."
            )
        if len(one.users) > GROUP_MAX or len(set(one.users)) < len(one.users):
            raise DefinitionsRefused(f"Node {node} has a user twice, or more than {GROUP_MAX}.")


def _check_groups(groups: dict[str, Group], known: Collection[str] | None) -> None:
    """Refuse groups with unknown or repeated members, and too many; without ``known``, all members are accepted."""
    if len(groups) > GROUPS_MAX or sum(len(group.members) for group in groups.values()) > MEMBERS_MAX:
        raise DefinitionsRefused(f"More than {GROUPS_MAX} groups, or more than {MEMBERS_MAX} members in all of them.")
    for name, group in groups.items():
        if not NODE_ID.fullmatch(name):
            raise DefinitionsRefused(
                f"{name[:80]!r} is no name of a group: letters, digits, '-' and '_' only, 64 at most."
            )
        if not 0 < len(group.members) <= GROUP_MAX:
            raise DefinitionsRefused(f"Group {name} needs 1 to {GROUP_MAX} members.")
        if len(set(group.members)) < len(group.members):
            raise DefinitionsRefused(f"Group {name} names a member twice.")
        strangers = [one for one in group.members if known is not None and one not in known]
        if strangers:
            raise DefinitionsRefused(
                f"Group {name} names {strangers[0][:80]!r}, which is not an institution of this hub"
                f"{did_you_mean(strangers[0], known or ()) or '.'}"
            ).with_remedy(f'Correct the name, or add the institution: a table [nodes."{strangers[0][:64]}"].')


def _located(written: dict[str, Any], fault: str) -> str:
    """Return a fault with its institution, because msgspec names all of them ``$.nodes[...]``."""
    nodes = written.get("nodes")
    for name, value in nodes.items() if isinstance(nodes, dict) else ():
        try:
            msgspec.convert(value, Institution)
        except msgspec.ValidationError:
            return fault.replace("$.nodes[...]", f'nodes."{name[:80]}"')
    return fault


def changes(before: HubDefinitions, after: HubDefinitions) -> list[str]:
    """Return the differences between two documents, line by line."""
    lines = [f"- node {node}" for node in before.nodes if node not in after.nodes]
    lines += [f"+ node {node}" for node in after.nodes if node not in before.nodes]
    lines += [
        f"~ node {node}: {old.name!r} -> {after.nodes[node].name!r}"
        for node, old in before.nodes.items()
        if node in after.nodes and after.nodes[node].name != old.name
    ]
    lines += [
        f"~ users of {node}: {shortened(', '.join(new.users), 300) or 'none'}"
        for node, new in after.nodes.items()
        if new.users != before.nodes.get(node, NOBODY).users
    ]
    lines += [f"- group {name}" for name in before.groups if name not in after.groups]
    lines += [
        f"{'~' if name in before.groups else '+'} group {name}: {shortened(', '.join(group.members), 300)}"
        for name, group in after.groups.items()
        if before.groups.get(name) != group
    ]
    lines += [f"- {_line(one)}" for one in before.agreements if one not in after.agreements]
    lines += [f"+ {_line(one)}" for one in after.agreements if one not in before.agreements]
    if not lines and before.agreements != after.agreements:
        lines.append("~ agreements in another order: the first one that fits counts")
    if bool(before.agreements) != bool(after.agreements):
        closed = (
            ("only documents with an agreement are allowed")
            if after.agreements
            else "may_send_to of the configuration decides"
        )
        lines.append(f"! from now on {closed}")
    return lines


def _line(one: Agreement) -> str:
    return " ".join(_words(one))


def _words(one: Agreement) -> Iterator[str]:
    yield f"{','.join(one.from_)} -> {','.join(one.to)}: {','.join(one.types)}"
    bounds: tuple[tuple[str, Any], ...] = (
        ("bytes_max", one.bytes_max), ("per_minute", one.per_minute), ("waiting_max", one.waiting_max),
    )  # fmt: skip
    yield from (f"{name}={value}" for name, value in bounds if value)
    if one.encrypt:
        yield "encrypt"


def written_from(nodes: Sequence[str]) -> str:
    """Return a document to begin with, if none was ever imported."""
    lines = ["# No definitions are in force; may_send_to of the configuration decides. Institutions there:"]
    return "\n".join([*lines, *(f"#   {node}" for node in nodes), ""])
