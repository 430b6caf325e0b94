"""Pairs of institutions that may send now, but not under other definitions. Pure; used by ``operations.definitions``.
With at least one agreement, only documents with an agreement are allowed: importing the first one stops every pair that
it does not name.
"""

from collections.abc import Mapping
from itertools import product
from typing import NamedTuple, Protocol

from platform_node.definitions import HubDefinitions
from semq.umx_t.address import Address, NodeType

NAMED_MAX = 200
COMPARED_MAX = 250_000  # pairs, a fraction of a second


class InstitutionTerms(Protocol):
    """The part of an institution's configuration that is used here."""

    @property
    def may_send_to(self) -> list[str] | None:
        """The institutions to which it may send; None: all."""


class Stopped(NamedTuple):
    """Pairs that would stop, as ``10008 -> 56001``; not ``whole`` if the list or the check was cut short."""

    pairs: list[str]
    whole: bool


def stopped(accounts: Mapping[str, InstitutionTerms], before: HubDefinitions, after: HubDefinitions) -> Stopped:
    """Return the pairs that ``before`` (without a document, the configuration) allows and ``after`` does not."""
    nodes = list(dict.fromkeys((*accounts, *before.nodes)))
    pairs: list[str] = []
    for compared, (source, target) in enumerate(product(nodes, nodes)):
        if len(pairs) == NAMED_MAX or compared == COMPARED_MAX:
            return Stopped(pairs, False)
        if source == target or not allows(accounts, before, source, target):
            continue
        if not allows(accounts, after, source, target):
            pairs.append(f"{source} -> {target}")
    return Stopped(pairs, True)


def allows(accounts: Mapping[str, InstitutionTerms], definitions: HubDefinitions, source: str, target: str) -> bool:
    """Return whether a document allows one institution to send anything to another."""
    if not all(name in accounts or name in definitions.nodes for name in (source, target)):
        return False
    agreed = definitions.terms(Address(NodeType.LOCAL, source), Address(NodeType.LOCAL, target))
    if agreed is not None:
        return bool(agreed)
    account = accounts.get(source)
    return account is None or account.may_send_to is None or target in account.may_send_to
