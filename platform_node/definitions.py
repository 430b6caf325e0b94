"""Definitions: the institutions of a hub and their agreements, as one text in TOML.

::

    [nodes."10008"]                     # in addition to the hub's configuration file
    name = "Lindwurm Trading"
    users = ["desk", "sales"]           # one document may be sent to all of them: 4.10008

    [groups.retailers]                  # one document may be sent to all of them: 3.retailers
    members = ["56001", "56002"]

    [[agreements]]                      # the first one that fits a document applies
    from = ["10008"]                    # "*": all institutions
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
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from platform_node.errors import DefinitionsRefused
from semq.config.nearest import did_you_mean
from semq.foreign_text import shortened
from semq.umx_t.agreement import ANY, Limit, Pattern, Terms
from semq.umx_t.pieces import PIECES_USER
from semq.umx_t.records import GROUP_MAX

TEXT_MAX = 4 * 1024 * 1024  # characters
GROUPS_MAX = 200
MEMBERS_MAX = 10_000  # members of all groups together; also users of all institutions together
IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,64}")  # of a node, a user or a group


class Institution(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node that the hub serves, with its users."""

    name: str = ""
    users: tuple[str, ...] = ()


NO_INSTITUTION = Institution()


class Agreement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agreement."""

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
        """The restrictions of the agreement, for the sender's node."""
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
    """The content of a text of definitions."""

    nodes: dict[str, Institution] = {}
    agreements: tuple[Agreement, ...] = ()
    groups: dict[str, Group] = {}


def read_definitions(text: str, configured: Sequence[str] | None = None) -> HubDefinitions:
    """Read definitions from TOML. Raises DefinitionsRefused with the first fault.

    ``configured``: the institutions of the hub's configuration file. None: do not check names of institutions, because
    imported definitions stay in force when an institution leaves the configuration.
    """
    if len(text) > TEXT_MAX:
        raise DefinitionsRefused("The definitions are too long.", size=len(text))
    content: dict[str, object] = {}
    try:
        content = tomllib.loads(text)
        definitions = msgspec.convert(content, HubDefinitions)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DefinitionsRefused(fault=shortened(str(error), 300)) from error
    except msgspec.ValidationError as error:
        raise DefinitionsRefused(fault=shortened(_located(content, str(error)), 300)) from error
    institutions = {*definitions.nodes, *(configured or ())}
    for node in definitions.nodes:
        if not IDENTIFIER.fullmatch(node):
            raise DefinitionsRefused(
                f"{node[:80]!r} is not a valid name of a node: letters, digits, '-' and '_' only, 64 at most."
            )
    _check_users(definitions.nodes)
    _check_groups(definitions.groups, None if configured is None else institutions)
    for number, agreement in enumerate(definitions.agreements, 1):
        if not agreement.from_ or not agreement.to or not agreement.types:
            raise DefinitionsRefused(f"Agreement {number} needs from, to and types that are not empty.")
        if configured is not None:
            _check_names(f"Agreement {number}", (*agreement.from_, *agreement.to), {*institutions, ANY})
    return definitions


def _check_users(nodes: Mapping[str, Institution]) -> None:
    if sum(len(institution.users) for institution in nodes.values()) > MEMBERS_MAX:
        raise DefinitionsRefused(f"More than {MEMBERS_MAX} users in all institutions together.")
    for node, institution in nodes.items():
        users = institution.users
        invalid = [name for name in users if not IDENTIFIER.fullmatch(name) or name == PIECES_USER]
        if invalid:
            raise DefinitionsRefused(
                f"{invalid[0][:80]!r} is not a valid name of a user: letters, digits, '-' and '_' only, 64 at most, not"
                f" {PIECES_USER!r}."
            )
        if len(users) > GROUP_MAX or len(set(users)) < len(users):
            raise DefinitionsRefused(f"Node {node} has a user twice, or more than {GROUP_MAX}.")


def _check_groups(groups: dict[str, Group], institutions: Collection[str] | None) -> None:
    """Refuse invalid groups. ``institutions``: None to allow unknown members."""
    if len(groups) > GROUPS_MAX or sum(len(group.members) for group in groups.values()) > MEMBERS_MAX:
        raise DefinitionsRefused(f"More than {GROUPS_MAX} groups, or more than {MEMBERS_MAX} members in all of them.")
    for name, group in groups.items():
        if not IDENTIFIER.fullmatch(name):
            raise DefinitionsRefused(
                f"{name[:80]!r} is not a valid name of a group: letters, digits, '-' and '_' only, 64 at most."
            )
        if not 0 < len(group.members) <= GROUP_MAX:
            raise DefinitionsRefused(f"Group {name} needs 1 to {GROUP_MAX} members.")
        if len(set(group.members)) < len(group.members):
            raise DefinitionsRefused(f"Group {name} names a member twice.")
        if institutions is not None:
            _check_names(f"Group {name}", group.members, institutions)


def _check_names(part: str, names: Iterable[str], institutions: Collection[str]) -> None:
    unknown = next((name for name in names if name not in institutions), None)
    if unknown is not None:
        raise DefinitionsRefused(
            f"{part} names {unknown[:80]!r}, which is not an institution of this hub"
            f"{did_you_mean(unknown, {*institutions} - {ANY}) or '.'}"
        ).with_remedy(f'Correct the name, or add the institution: a table [nodes."{unknown[:64]}"].')


def _located(content: dict[str, object], fault: str) -> str:
    """Return a fault with the name of the institution in place of ``$.nodes[...]``, which msgspec writes."""
    nodes = content.get("nodes")
    for name, value in nodes.items() if isinstance(nodes, dict) else ():
        try:
            msgspec.convert(value, Institution)
        except msgspec.ValidationError:
            return fault.replace("$.nodes[...]", f'nodes."{name[:80]}"')
    return fault


def changes(before: HubDefinitions, after: HubDefinitions, configured: Collection[str] = ()) -> list[str]:
    """Return the differences between two definitions, one per line.

    ``configured``: the institutions of the hub's configuration file, which stay whatever the definitions contain.
    """
    lines = [
        f"~ node {node}: no longer defined; it stays, by the configuration" if node in configured else f"- node {node}"
        for node in before.nodes
        if node not in after.nodes
    ]
    lines += [
        f"~ node {node}: defined, and in the configuration" if node in configured else f"+ node {node}"
        for node in after.nodes
        if node not in before.nodes
    ]
    lines += [
        f"~ node {node}: {old.name!r} -> {after.nodes[node].name!r}"
        for node, old in before.nodes.items()
        if node in after.nodes and after.nodes[node].name != old.name
    ]
    lines += [
        f"~ users of {node}: {shortened(', '.join(new.users), 300) or 'none'}"
        for node, new in after.nodes.items()
        if new.users != before.nodes.get(node, NO_INSTITUTION).users
    ]
    lines += [f"- group {name}" for name in before.groups if name not in after.groups]
    lines += [
        f"{'~' if name in before.groups else '+'} group {name}: {shortened(', '.join(group.members), 300)}"
        for name, group in after.groups.items()
        if before.groups.get(name) != group
    ]
    lines += [f"- {_line(agreement)}" for agreement in before.agreements if agreement not in after.agreements]
    lines += [f"+ {_line(agreement)}" for agreement in after.agreements if agreement not in before.agreements]
    kept_before = [agreement for agreement in before.agreements if agreement in after.agreements]
    kept_after = [agreement for agreement in after.agreements if agreement in before.agreements]
    if kept_before != kept_after:
        lines.append("~ agreements in another order: the first one that fits a document applies")
    if bool(before.agreements) != bool(after.agreements):
        rule = (
            "only documents with an agreement are allowed"
            if after.agreements
            else "may_send_to of the configuration decides"
        )
        lines.append(f"! from now on {rule}")
    return lines


def _line(agreement: Agreement) -> str:
    parts = [f"{','.join(agreement.from_)} -> {','.join(agreement.to)}: {','.join(agreement.types)}"]
    bounds = {name: getattr(agreement, name) for name in ("bytes_max", "per_minute", "waiting_max")}
    parts += [f"{name}={bound}" for name, bound in bounds.items() if bound]
    if agreement.encrypt:
        parts.append("encrypt")
    return " ".join(parts)


def first_text(nodes: Sequence[str]) -> str:
    """Return definitions to begin with: comments that name the institutions."""
    lines = ["# No definitions are in force; may_send_to of the configuration decides. Institutions there:"]
    return "\n".join([*lines, *(f"#   {node}" for node in nodes), ""])
