"""Pairs of institutions that may exchange documents, and pairs that changed definitions would stop.

Without any agreement, ``may_send_to`` of the configuration decides. With at least one, only documents with an agreement
are allowed: the import of a first agreement stops every pair that it does not name.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple, Protocol

from platform_node.definitions import Agreement, HubDefinitions
from semq.foreign_text import shortened
from semq.umx_t.address import Address, NodeType
from semq.umx_t.agreement import ANY, Terms, matches
from semq.umx_t.app_key import AppKey
from semq.umx_t.records import Presence

NAMED_MAX = 200  # pairs that would stop
TYPES_MAX = 200  # characters of the types that a pair would lose
COMPARED_MAX = 250_000  # pairs


class InstitutionTerms(Protocol):
    """The part of an institution's configuration that decides about pairs."""

    @property
    def may_send_to(self) -> list[str] | None:
        """Node ids of the institutions to which this institution may send; None: all."""


class PartnerIndex:
    """Agreements and permissions by institution."""

    def __init__(self, accounts: Mapping[str, InstitutionTerms], definitions: HubDefinitions) -> None:
        #: all institutions, in the order of the configuration, then of the definitions
        self.nodes = [_address(node_id) for node_id in dict.fromkeys((*accounts, *definitions.nodes))]
        self.known = frozenset(self.nodes)
        self._agreements = definitions.agreements
        self._from: dict[str, list[int]] = {}  #: node id to places of agreements that name it as a sender
        self._to: dict[str, list[int]] = {}  #: the same for receivers
        self._named_by: dict[str, list[str]] = {}  #: node id to the node ids whose ``may_send_to`` names it
        self._limits = {node_id: account.may_send_to for node_id, account in accounts.items()}
        #: node ids that may send to all
        self._unrestricted = [node.id for node in self.nodes if self._limits.get(node.id) is None]
        for place, agreement in enumerate(self._agreements):
            for index, names in ((self._from, agreement.from_), (self._to, agreement.to)):
                for name in dict.fromkeys(names):
                    index.setdefault(name, []).append(place)
        for node_id, limit in self._limits.items():
            for name in limit or ():
                self._named_by.setdefault(name, []).append(node_id)
        self._partners_found: dict[Address, Sequence[Address]] = {}  #: results of ``partners``
        self._groups = {
            name: [member for member in map(_address, group.members) if member in self.known]
            for name, group in definitions.groups.items()
        }
        self._users = {
            _address(node_id): institution.users
            for node_id, institution in definitions.nodes.items()
            if institution.users
        }
        self._groups_found: dict[Address, Sequence[Presence]] = {}

    def terms(self, source: Address, target: Address) -> tuple[Terms, ...] | None:
        """Return the agreements of a pair, in order; None if no agreements are in force."""
        if not self._agreements:
            return None
        from_source = self._agreements_of(self._from, source)
        return tuple(agreement.terms for agreement in from_source if agreement.is_between(source.id, target.id))

    def may_send(self, source: Address, target: Address) -> bool:
        """Return whether ``source`` may send at least some documents; without agreements, the configuration decides."""
        if source not in self.known or target not in self.known:
            return False
        if self._agreements:
            return bool(self.terms(source, target))
        limit = self._limits.get(source.id)
        return limit is None or target.id in limit

    def types(self, source: Address, target: Address) -> tuple[str, ...]:
        """Return the patterns of the types of documents that ``source`` may send."""
        if not self._agreements:
            return (ANY,) if self.may_send(source, target) else ()
        if source not in self.known or target not in self.known:
            return ()
        return tuple(pattern for each in self.terms(source, target) or () for pattern in each.types)

    def partners(self, node: Address) -> Sequence[Address]:
        """Return the partners of an institution; the institution itself may be among them."""
        partners = self._partners_found.get(node)
        if partners is None:
            names = dict.fromkeys(self._names(node))
            # Institutions with all others as partners share one list: separate lists would take quadratic memory.
            partners = self.nodes if ANY in names else [each for each in map(_address, names) if each in self.known]
            self._partners_found[node] = partners
        return partners

    def groups(self, node: Address) -> Sequence[Presence]:
        """Return the groups to which an institution may send, as the records that its node gets.

        The users of an institution form a group. Members to which ``node`` may not send are counted, not named.
        """
        records = self._groups_found.get(node)
        if records is None:
            records = [*self._group_records(node), *self._user_records(node)]
            self._groups_found[node] = records
        return records

    def _group_records(self, node: Address) -> Iterator[Presence]:
        for name, members in self._groups.items():
            others = [member for member in members if member != node]
            reachable = [member for member in others if self.may_send(node, member)]
            if reachable:
                yield Presence(
                    node=str(Address(NodeType.GROUP, name)),
                    allowed=False,  # else older nodes would treat the group as an institution
                    members=tuple(map(str, reachable)),
                    others=len(others) - len(reachable),
                )

    def _user_records(self, node: Address) -> Iterator[Presence]:
        for institution in dict.fromkeys((node, *self.partners(node))):
            if institution in self._users and (institution == node or self.may_send(node, institution)):
                yield Presence(
                    node=str(Address(NodeType.USERS, institution.id)),
                    allowed=False,
                    members=tuple(str(institution._replace(user=name)) for name in self._users[institution]),
                )

    def users(self, node: Address) -> Sequence[str]:
        return self._users.get(node, ())

    def _names(self, node: Address) -> Iterator[str]:
        """Yield the node ids of the partners of an institution, with repetitions; ANY stands for all institutions."""
        if self._agreements:
            for agreement in self._agreements_of(self._from, node):
                yield from agreement.to
            for agreement in self._agreements_of(self._to, node):
                yield from agreement.from_
            return
        limit = self._limits.get(node.id)
        yield from (ANY,) if limit is None else limit
        yield from self._unrestricted
        yield from self._named_by.get(node.id, ())

    def _agreements_of(self, index: Mapping[str, list[int]], node: Address) -> list[Agreement]:
        places = {*index.get(node.id, ()), *index.get(ANY, ())}
        return [self._agreements[place] for place in sorted(places)]


class StoppedPairs(NamedTuple):
    """Pairs that would stop, as ``10008 -> 56001``, or would lose types, as ``10008 -> 56001 (order, trade/invoice)``.

    ``is_complete``: False at NAMED_MAX or COMPARED_MAX.
    """

    pairs: list[str]
    is_complete: bool


def stopped_pairs(
    accounts: Mapping[str, InstitutionTerms], before: HubDefinitions, after: HubDefinitions
) -> StoppedPairs:
    """Return the pairs, or types of documents of pairs, that ``before`` allows and ``after`` does not."""
    old, new = PartnerIndex(accounts, before), PartnerIndex(accounts, after)

    @cache  # the same agreement may apply to all pairs
    def lost_types(had: tuple[str, ...], allowed: tuple[str, ...]) -> list[str]:
        return [pattern for pattern in had if not _includes(allowed, pattern)]

    pairs: list[str] = []
    for compared, (source, target) in enumerate(product(old.nodes, old.nodes)):
        if len(pairs) == NAMED_MAX or compared == COMPARED_MAX:
            return StoppedPairs(pairs, False)
        if source == target:
            continue
        allowed = new.types(source, target)
        if lost := lost_types(old.types(source, target), allowed):
            named = f" ({shortened(', '.join(lost), TYPES_MAX)})" if allowed else ""
            pairs.append(f"{source.id} -> {target.id}{named}")
    return StoppedPairs(pairs, True)


def _includes(patterns: Sequence[str], pattern: str) -> bool:
    """Return whether every type that matches a pattern matches one of ``patterns``.

    A part of the pattern that may have any value is represented by ANY, which only ANY matches. A pattern of more than
    three parts matches no type.
    """
    parts = pattern.split("/")
    domain, type_, subtype = (ANY, *parts, ANY) if len(parts) == 1 else (*parts, ANY)[:3]
    return len(parts) > 3 or any(matches(other, AppKey(domain, type_, subtype)) for other in patterns)


def _address(node_id: str) -> Address:
    return Address(NodeType.LOCAL, node_id)
