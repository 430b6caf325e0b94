"""Pairs of institutions that may exchange documents, and those that other definitions would stop.

Read from agreements, and without any from ``may_send_to`` of the configuration. With at least one agreement, only
documents with an agreement are allowed: importing the first one stops every pair that it does not name. Used by
``directory`` and ``operations.definitions``.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple, Protocol

from platform_node.definitions import Agreement, HubDefinitions
from semq.umx_t.address import Address, NodeType
from semq.umx_t.agreement import ANY, Terms
from semq.umx_t.records import Presence

NAMED_MAX = 200
COMPARED_MAX = 250_000  # pairs, a fraction of a second


class InstitutionTerms(Protocol):
    """The part of an institution's configuration that is used here."""

    @property
    def may_send_to(self) -> list[str] | None:
        """The institutions to which it may send; None: all."""


class PartnerIndex:
    """Agreements and permissions by institution, so that a question about one does not read all others."""

    def __init__(self, accounts: Mapping[str, InstitutionTerms], definitions: HubDefinitions) -> None:
        self.nodes = [_address(node_id) for node_id in dict.fromkeys((*accounts, *definitions.nodes))]  #: all
        self.known = frozenset(self.nodes)  #: the same, to look one up
        self._agreements = definitions.agreements
        self._from: dict[str, list[int]] = {}  #: node id to places of agreements that name it as a sender
        self._to: dict[str, list[int]] = {}
        self._reached: dict[str, list[str]] = {}  #: without agreements: node id to those whose ``may_send_to`` names it
        self._limits = {node_id: account.may_send_to for node_id, account in accounts.items()}
        self._free = [node.id for node in self.nodes if self._limits.get(node.id) is None]  # may send to all
        for place, agreement in enumerate(self._agreements):
            for index, names in ((self._from, agreement.from_), (self._to, agreement.to)):
                for name in dict.fromkeys(names):
                    index.setdefault(name, []).append(place)
        for node_id, limit in self._limits.items():
            for name in limit or ():
                self._reached.setdefault(name, []).append(node_id)
        self._found: dict[Address, Sequence[Address]] = {}
        self._groups = {
            name: [one for one in map(_address, group.members) if one in self.known]
            for name, group in definitions.groups.items()
        }
        self._users = {_address(node_id): one.users for node_id, one in definitions.nodes.items() if one.users}
        self._groups_found: dict[Address, Sequence[Presence]] = {}

    def terms(self, source: Address, target: Address) -> tuple[Terms, ...] | None:
        """Return the agreements of a pair, in order; None if no agreements are in force at all."""
        if not self._agreements:
            return None
        found = (one for one in self._of(self._from, source) if one.is_between(source.id, target.id))
        return tuple(one.terms for one in found)

    def may_send(self, source: Address, target: Address) -> bool:
        """Whether an agreement allows a pair anything; without agreements, whether the configuration does."""
        if source not in self.known or target not in self.known:
            return False
        if self._agreements:
            return bool(self.terms(source, target))
        limit = self._limits.get(source.id)
        return limit is None or target.id in limit

    def partners(self, node: Address) -> Sequence[Address]:
        """Return the partners of an institution; the institution itself may be among them."""
        found = self._found.get(node)
        if found is None:
            names = dict.fromkeys(self._names(node))
            # One list for all that have all as partners: a list for each would grow with the square of their number.
            found = self.nodes if ANY in names else [one for one in map(_address, names) if one in self.known]
            self._found[node] = found
        return found

    def groups(self, node: Address) -> Sequence[Presence]:
        """Return the groups of which an institution may send to any member, as the records that it gets; also those of
        the users of an institution. Members to which it may not send are counted, not named."""
        found = self._groups_found.get(node)
        if found is None:
            found = [
                Presence(
                    node=str(Address(NodeType.GROUP, name)),
                    allowed=False,  # a node of an older version must not send to the group as to an institution
                    members=tuple(str(one) for one in named),
                    others=len(others) - len(named),
                )
                for name, members in self._groups.items()
                if (others := [one for one in members if one != node])
                and (named := [one for one in others if self.may_send(node, one)])
            ]
            found += [
                Presence(
                    node=str(Address(NodeType.USERS, one.id)),
                    allowed=False,
                    members=tuple(str(one._replace(user=name)) for name in self._users[one]),
                )
                for one in dict.fromkeys((node, *self.partners(node)))
                if one in self._users and (one == node or self.may_send(node, one))
            ]
            self._groups_found[node] = found
        return found

    def users(self, node: Address) -> Sequence[str]:
        """Return the users of an institution that the definitions name."""
        return self._users.get(node, ())

    def _names(self, node: Address) -> Iterable[str]:
        if self._agreements:
            for agreement in self._of(self._from, node):
                yield from agreement.to
            for agreement in self._of(self._to, node):
                yield from agreement.from_
            return
        limit = self._limits.get(node.id)
        yield from (ANY,) if limit is None else limit
        yield from self._free
        yield from self._reached.get(node.id, ())

    def _of(self, index: Mapping[str, list[int]], node: Address) -> list[Agreement]:
        places = {*index.get(node.id, ()), *index.get(ANY, ())}
        return [self._agreements[place] for place in sorted(places)]


class Stopped(NamedTuple):
    """Pairs that would stop, as ``10008 -> 56001``; not ``whole`` if the list or the check was cut short."""

    pairs: list[str]
    whole: bool


def stopped(accounts: Mapping[str, InstitutionTerms], before: HubDefinitions, after: HubDefinitions) -> Stopped:
    """Return the pairs that ``before`` (without a document, the configuration) allows and ``after`` does not."""
    old, new = PartnerIndex(accounts, before), PartnerIndex(accounts, after)
    pairs: list[str] = []
    for compared, (source, target) in enumerate(product(old.nodes, old.nodes)):
        if len(pairs) == NAMED_MAX or compared == COMPARED_MAX:
            return Stopped(pairs, False)
        if source != target and old.may_send(source, target) and not new.may_send(source, target):
            pairs.append(f"{source.id} -> {target.id}")
    return Stopped(pairs, True)


def _address(node_id: str) -> Address:
    return Address(NodeType.LOCAL, node_id)
