"""The directory of partners at a local node, in bounded memory: from the hub, or configured if there is no hub."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from semq.engine import errors
from semq.engine.agreements import Meter, agreed_terms
from semq.umx_t.agreement import Terms, first_covering
from semq.umx_t.app_key import AppKey
from semq.umx_t.records import Presence

PARTNERS_MAX = 50_000
MEMBERS_MAX = 20_000  # of all groups together
USERS_MAX = 20_000  # present users of all partners
TERMS_BYTES_MAX = 16 << 20  # of all agreements


class KnownGroup(NamedTuple):
    """A group of institutions."""

    members: tuple[str, ...]  #: members to which this node may send
    others: int  #: number of other members


class Partners(Struct):
    """The known partners and groups. While ``complete`` is false, an unknown target is accepted, too."""

    has_hub: bool = True
    complete: bool = False  #: whether the last list was complete and within the bounds
    allowed: dict[str, bool] = field(default_factory=dict)  #: by partner: whether this node may send to the partner
    online: dict[str, bool] = field(default_factory=dict)  #: by partner
    terms: dict[str, tuple[Terms, ...]] = field(default_factory=dict)  #: by partner; no entry: no restrictions
    groups: dict[str, KnownGroup] = field(default_factory=dict)
    present: dict[str, tuple[str, ...]] = field(default_factory=dict)  #: users who receive documents now, by partner
    meter: Meter = field(default_factory=lambda: Meter(1.0))
    overflow: bool = False  #: whether the list of this session exceeds the bounds
    is_listed: bool = False  #: whether all partners are known: the hub has sent a complete list in this session
    _named: set[str] = field(default_factory=set)  #: partners kept in this session
    _named_groups: set[str] = field(default_factory=set)  #: groups kept in this session
    _terms_bytes: int = 0

    @classmethod
    def configured(cls, nodes: Iterable[str]) -> "Partners":
        """Return the directory of a node without a hub."""
        return cls(has_hub=False, complete=True, is_listed=True, allowed=dict.fromkeys(nodes, True))

    def configure(self, nodes: Iterable[str]) -> None:
        """Replace the configured partners, unless the hub names them."""
        if not self.has_hub:
            self.allowed.clear()
            self.allowed.update(dict.fromkeys(nodes, True))

    def take_over(self, old: "Partners") -> None:
        """Share the contents of ``old``, the directory of the previous engine."""
        self.complete, self.overflow, self.is_listed = old.complete, old.overflow, old.is_listed
        self.allowed, self.online, self.terms, self.meter = old.allowed, old.online, old.terms, old.meter
        self.groups, self.present = old.groups, old.present
        self._named, self._named_groups, self._terms_bytes = old._named, old._named_groups, old._terms_bytes

    def begin(self) -> None:
        """Begin a session: the hub sends a complete list."""
        self._named.clear()
        self._named_groups.clear()
        self.overflow = self.is_listed = False

    def learn(self, records: Sequence[Presence]) -> None:
        """Process records of the hub. The last record of a complete list removes all partners and groups that were not
        kept in this session.

        Raises DirectoryTooLarge after processing all records, but only once in a session.
        """
        overflow, first = self.overflow, None
        for record in records:
            excess = self._note_partner(record) if record.members is None else self._note_group(record)
            first = first or excess
            self.overflow = self.overflow or excess is not None
            if record.complete:
                self.complete, self.is_listed = not self.overflow, True
                for node in self.allowed.keys() - self._named:
                    del self.allowed[node], self.online[node]
                    self.present.pop(node, None)
                    self._set_terms(node, None)
                for name in self.groups.keys() - self._named_groups:
                    del self.groups[name]
        if first is not None and not overflow:
            raise first

    def _note_partner(self, record: Presence) -> errors.DirectoryTooLarge | None:
        """Note a partner, or return the error if a bound would be exceeded."""
        if not record.node:  # the end of the list
            return None
        if record.node not in self._named and len(self._named) >= PARTNERS_MAX:
            return errors.DirectoryTooLarge(counted="partners", kept=len(self._named), most=PARTNERS_MAX)
        more = _size(record.terms or ()) - _size(self.terms.get(record.node, ()))
        if more > 0 and self._terms_bytes + more > TERMS_BYTES_MAX:
            return errors.DirectoryTooLarge(counted="bytes of agreements", kept=self._terms_bytes, most=TERMS_BYTES_MAX)
        self.allowed[record.node] = record.allowed
        self.online[record.node] = record.online
        self._note_users(record)
        self._set_terms(record.node, record.terms)
        self._named.add(record.node)
        return None

    def _note_users(self, record: Presence) -> None:
        """Note the present users of a partner, or none if the bound would be exceeded."""
        self.present.pop(record.node, None)
        if record.online and record.present and sum(map(len, self.present.values())) + len(record.present) <= USERS_MAX:
            self.present[record.node] = record.present

    def _note_group(self, record: Presence) -> errors.DirectoryTooLarge | None:
        """Note a group, or return the error if the bound would be exceeded. A group without members has ended."""
        self.groups.pop(record.node, None)
        used = sum(len(known.members) for known in self.groups.values())
        if not record.members:
            self._named_groups.discard(record.node)
            return None
        if used + len(record.members) > MEMBERS_MAX:
            return errors.DirectoryTooLarge(counted="members of groups", kept=used, most=MEMBERS_MAX)
        self.groups[record.node] = KnownGroup(record.members, record.others)
        self._named_groups.add(record.node)
        return None

    def _set_terms(self, node: str, terms: tuple[Terms, ...] | None) -> None:
        self._terms_bytes -= _size(self.terms.pop(node, ()))
        if terms is not None:
            self.terms[node] = terms
            self._terms_bytes += _size(terms)

    def check(self, dest: str) -> None:
        """Check a target. Raises TargetNotAllowed; UnknownTarget if the directory is complete."""
        known = self.allowed.get(dest)
        if known is None and not self.has_hub:
            raise errors.UnknownTarget(
                "This node has no hub, and its configuration names no such partner.", target=dest
            ).with_remedy(
                "Check the number of the target; section [direct] names the partners of a node without a hub."
            )
        if known is None and self.complete:
            raise errors.UnknownTarget(target=dest)
        if known is False:
            raise errors.TargetNotAllowed(target=dest)

    def check_agreement(self, dest: str, app_key: AppKey, size: int, waiting: int) -> Terms | None:
        """Return the terms for a document of ``size`` bytes; None if no agreement restricts the target.

        ``waiting``: number of documents for the target without an outcome. Raises TypeNotAllowed, DocumentTooLarge,
        QuotaReached.
        """
        agreed = self.terms.get(dest)
        if agreed is None:
            return None
        terms = agreed_terms(agreed, dest, app_key, size)
        if terms.waiting_max and waiting >= terms.waiting_max:
            raise errors.QuotaReached(target=dest, waiting=waiting, agreed=terms.waiting_max).with_remedy(
                "Wait until the partner has taken what waits, or ask the hub's operator to raise waiting_max of"
                " the agreement (`semq definitions export` there)."
            )
        return terms

    def take_rate(self, dest: str, app_key: AppKey, now: float) -> None:
        """Count a document for the rate of the agreement. Raises TooFast."""
        terms = first_covering(self.terms.get(dest, ()), app_key)
        if terms is not None and not self.meter.take(dest, terms, now):
            raise errors.TooFast(target=dest, per_minute=terms.per_minute)

    def give_back_rate(self, dest: str, app_key: AppKey, now: float) -> None:
        """Undo ``take_rate`` for a document that is refused for another reason."""
        terms = first_covering(self.terms.get(dest, ()), app_key)
        if terms is not None:
            self.meter.give_back(dest, terms, now)


def _size(agreed: tuple[Terms, ...]) -> int:
    """Return the approximate bytes of agreements."""
    return sum(200 + sum(60 + len(pattern) for pattern in terms.types) for terms in agreed)
