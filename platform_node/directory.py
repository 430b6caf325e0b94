"""The institutions of the hub and their agreements.

They come from the configuration (``[nodes]``) and from the imported definitions (``definitions``), which have priority.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import UNSET, UnsetType

from platform_node.certificate_directory import KnownCertificates
from platform_node.definitions import HubDefinitions
from platform_node.pairs import PartnerIndex
from semq.answers import OperationAnswer
from semq.clock import Clock
from semq.config.sections import AccountSection
from semq.engine.agreements import DAY_MINUTES, Meter, agreed_terms
from semq.engine.errors import QuotaReached, SealRequired, TargetNotAllowed, TooFast, UnknownTarget
from semq.errors import SemqError
from semq.seal.session import OVERHEAD
from semq.store.rows import Reason
from semq.umx_t.address import Address
from semq.umx_t.agreement import Terms
from semq.umx_t.envelope import Envelope
from semq.umx_t.records import Presence


class InstitutionState(OperationAnswer, frozen=True, kw_only=True):
    """An institution, as the hub sees it."""

    node: str
    online: bool
    held: int  #: documents stored for it
    stores: dict[str, int] | UnsetType = UNSET  #: of these, by store, at a hub of several
    store_uuid: str | UnsetType = UNSET  #: of the last process that has stated it
    boot: int | UnsetType = UNSET
    incarnation: str | UnsetType = UNSET
    address: str | UnsetType = UNSET  #: from which it is connected to this instance
    version: str | UnsetType = UNSET  #: of its program
    seen_at: str | UnsetType = UNSET  #: while it is online: now; else its last login


class HubDirectory:
    """The directory of a hub, with the queries of ``PartnerIndex``."""

    def __init__(self, accounts: Mapping[str, AccountSection], certificates: KnownCertificates, clock: Clock) -> None:
        self._accounts = accounts
        self._certificates = certificates
        self._clock = clock
        self._meter = Meter(DAY_MINUTES)
        self.version = 0  #: of the imported definitions in force; 0: none
        self.definitions = HubDefinitions()
        self.apply(0, self.definitions)

    def configure(self, accounts: Mapping[str, AccountSection]) -> None:
        self._accounts = accounts
        self.apply(self.version, self.definitions)

    def apply(self, version: int, definitions: HubDefinitions) -> None:
        """Put definitions in force."""
        self.version, self.definitions = version, definitions
        self._index = PartnerIndex(self._accounts, definitions)
        self._names = frozenset(map(str, self._index.nodes))
        self._meter.fill()

    def nodes(self) -> Sequence[Address]:
        return self._index.nodes

    def serves(self, node: Address) -> bool:
        """Return whether this is the address of an institution."""
        return node in self._index.known

    def knows(self, name: str) -> bool:
        """Return whether this text is the address of an institution."""
        return name in self._names

    def terms(self, source: Address, target: Address) -> tuple[Terms, ...] | None:
        return self._index.terms(source, target)

    def partners(self, node: Address) -> Sequence[Address]:
        return self._index.partners(node)

    def groups(self, node: Address) -> Sequence[Presence]:
        return self._index.groups(node)

    def users(self, node: Address) -> Collection[str]:
        return self._index.users(node)

    def may_send(self, source: Address, target: Address) -> bool:
        return self._index.may_send(source, target)

    def introduce(self, node: Address, certificates: Sequence[str]) -> tuple[str, ...] | None:
        """Note the certificates of a node; return the valid ones, or None if nothing changed."""
        return self._certificates.introduce(node, certificates)

    def certificates(self, node: Address) -> tuple[str, ...] | None:
        """Return the certificates of an institution; None if its node has never sent any."""
        return self._certificates.of(node)

    def refuse(self, envelope: Envelope, size: int, waiting: Callable[[str, str], int]) -> Reason | None:
        """Return the reason to refuse a message; None to accept it.

        ``waiting(source, target)`` returns the number of copies that the hub stores for a pair.
        """
        source, target = envelope.lk0.node, envelope.target.node
        if target not in self._index.known:
            return UnknownTarget.code, f"The hub knows no institution {target}."
        if not self.may_send(source, target):
            return TargetNotAllowed.code, f"No agreement allows {source} to send to {target}."
        agreed = self.terms(source, target)
        return None if agreed is None else self._breach(envelope, agreed, size, waiting)

    def _breach(
        self, envelope: Envelope, agreed: Sequence[Terms], size: int, waiting: Callable[[str, str], int]
    ) -> Reason | None:
        """Return the broken term as the reason for a refusal; None if the message keeps all terms."""
        source, target = envelope.lk0.node, envelope.target.node
        # Later attempts have a rate of their own, so that they do not use up the rate of new documents.
        metered = f"{source} {target}" + (" again" if envelope.att > 1 else "")
        sealed = bool(envelope.session_key)
        try:
            # The bytes of a seal do not count against the agreed size.
            terms = agreed_terms(agreed, str(target), envelope.attributes.app_key, size - OVERHEAD * sealed)
            if terms.encrypt and not sealed:
                raise SealRequired(target=str(target))
            copies = waiting(str(source), str(target)) if terms.waiting_max else 0
            if copies and copies >= terms.waiting_max:
                raise QuotaReached(target=str(target), waiting=copies)
            if not self._meter.take(metered, terms, self._clock.monotonic()):
                raise TooFast(target=str(target), per_minute=terms.per_minute)
        except SemqError as error:
            return error.code, error.text
        return None
