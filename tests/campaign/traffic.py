"""The traffic: a weighted table of kinds of documents, from which a seed draws."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from tests.campaign.notebook import CANCELLED, DELIVERED, DROPPED, OPEN, REJECTED, UNKNOWN, Handed

PIECES_FROM = 1 << 20  # bytes; larger documents are sent in pieces


class DocumentKind(NamedTuple):
    """A row of the table. ``traits``: what a door must be able to do."""

    share: float
    name: str
    save_fwd: int
    ack2: int
    traits: frozenset[str]


def _kind(share: float, name: str, save_fwd: int, ack2: int, traits: str = "") -> DocumentKind:
    return DocumentKind(share, name, save_fwd, ack2, frozenset(traits.split()))


# share, kind, @SaveFwd, @Ack2, traits
KINDS = (
    _kind(20, "plain", 3, 1),
    _kind(6, "noreceipt", 3, 0, "classes"),
    _kind(5, "store", 2, 1, "classes"),
    _kind(2, "storequiet", 2, 0, "classes"),
    _kind(3, "drop", 1, 1, "classes"),
    _kind(2, "dropquiet", 1, 0, "classes"),
    _kind(14, "ordered", 3, 1, "order"),
    _kind(3, "orderedquiet", 3, 0, "order classes"),
    _kind(4, "fixed", 3, 1, "fixed"),
    _kind(10, "sealed", 3, 1, "sealed"),
    _kind(4, "sealedordered", 3, 1, "sealed order"),
    _kind(3, "priority", 3, 1, "priority"),
    _kind(3, "user", 3, 1, "user"),
    _kind(3, "group", 3, 1, "group"),
    _kind(2, "users", 3, 1, "group users"),
    _kind(3, "scheduled", 3, 1, "scheduled"),
    _kind(2, "timely", 3, 1, "expiring"),
    _kind(2, "expiring", 3, 1, "expiring late"),
    _kind(2, "cancelled", 3, 1, "cancel"),
    _kind(2, "withdrawn", 3, 1, "cancel scheduled"),
    _kind(3, "repeated", 3, 1, "repeat"),
    _kind(2, "pieces", 3, 1, "large"),
    _kind(0.03, "huge", 3, 1, "large huge"),  # most campaigns of three minutes have none
    _kind(2, "refused", 3, 1, "unknown"),
    _kind(2, "poison", 3, 1, "poison"),
    _kind(3, "batch", 3, 1, "tx"),
    _kind(2, "rolledback", 3, 1, "rollback"),
    _kind(3, "doubtful", 3, 1, "doubtful"),
)
UNKNOWN_INSTITUTION = "1.99999"
# share, bytes of the body from and to
SIZES = ((80, 20, 2_000), (16, 2_000, 20_000), (4, 100_000, 200_000))
LARGE, HUGE = (PIECES_FROM + 1, 3 << 20), (8 << 20, 256 << 20)
SCHEDULED_MS = (500, 5_000)
WITHDRAWN_MS = 60_000  # later than the cancellation in any case
LATE_MS = (50, 2_000)
TIMELY_MS = 3_600_000
ORDER_KEYS = 2  # of each lane
RUN_MAX = 5  # documents with an order key come in runs: only those under way together can change their order
# Values of headers at the AMQP doors, by name
RICH_HEADERS: Mapping[str, Any] = {
    "x-integer": 9007199254740993, "x-negative": -5, "x-true": True, "x-text": "交货 ✓",
    "x-table": {"a": 1, "b": ["x", 2]}, "x-list": [1, "two", False], "x-none": None,
}  # fmt: skip


class Traffic:
    """Draws the documents of one lane, a program that hands over one document after the other.

    The order keys of a lane are its own, so that its documents of one key are accepted in the order of their numbers.
    """

    def __init__(
        self, seed: int, source: str, door: str, lane: int, can: frozenset[str], partners: Sequence[str],
        users: Mapping[str, Sequence[str]], groups: Mapping[str, Sequence[str]], only: frozenset[str] | None = None,
        small: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """``can``: traits of the door. ``partners``: addresses. ``users``: addresses of users, by institution;
        ``groups``: addresses of the members, by routing key. ``only``: kinds; None: all. ``small``: partners without
        room for huge documents."""
        self._chance = Random(f"{seed}/{source}/{door}/{lane}")
        self._lane, self._source, self._door = f"{source}.{door}.{lane}", source, door
        self._kinds = [kind for kind in KINDS if kind.traits <= can and (only is None or kind.name in only)]
        self._partners, self._users, self._groups = partners, users, groups
        self._roomy = [partner for partner in partners if partner not in small]
        self._is_rich = "rich" in can

    @property
    def is_empty(self) -> bool:
        """Whether the door takes none of the kinds."""
        return not self._kinds

    def draw(self, number: int, now_ms: int) -> Handed:
        """Return the next document. ``now_ms``: milliseconds since 1970 UTC."""
        chance = self._chance
        kind = chance.choices(self._kinds, [each.share for each in self._kinds])[0]
        traits = kind.traits
        target = chance.choice(self._roomy if "huge" in traits else self._partners)
        receivers: tuple[str, ...] = (target,)
        if "unknown" in traits:
            target, receivers = UNKNOWN_INSTITUTION, (UNKNOWN_INSTITUTION,)
        elif "group" in traits:
            groups = {
                key: members for key, members in self._groups.items() if key.startswith("4.") == ("users" in traits)
            }
            target = chance.choice(sorted(groups))
            receivers = tuple(groups[target])
        elif "user" in traits:
            target = chance.choice([user for users in self._users.values() for user in users])
            receivers = (target,)
        order_key = ""
        if "fixed" in traits:
            order_key = "fixed"
        elif "order" in traits:
            order_key = f"{self._lane}/{chance.randrange(ORDER_KEYS)}"
        size = self._size(traits)
        document = Handed(
            number, kind.name, traits, self._source, self._door, target, receivers, kind.save_fwd, kind.ack2, order_key,
            size, self._ends(kind), self._headers(number),
        )  # fmt: skip
        if "priority" in traits:
            document.priority = chance.randint(1, 9)
        if "scheduled" in traits:
            document.not_before = now_ms + (WITHDRAWN_MS if "cancel" in traits else chance.randint(*SCHEDULED_MS))
        if "expiring" in traits:
            document.expires_at = now_ms + (chance.randint(*LATE_MS) if "late" in traits else TIMELY_MS)
        return document

    def like(self, document: Handed, number: int) -> Handed:
        """Return a further document of a transaction."""
        document.batch = document.number
        return self.following(document, number)

    def following(self, document: Handed, number: int) -> Handed:
        """Return another document of this kind, to the same target and with the same order key."""
        return replace(
            document, number=number, size=self._size(document.traits), headers=self._headers(number), outcomes={},
        )  # fmt: skip

    def _size(self, traits: frozenset[str]) -> int:
        if "huge" in traits:
            return int(HUGE[0] * (HUGE[1] / HUGE[0]) ** self._chance.random())
        if "large" in traits:
            return self._chance.randint(*LARGE)
        _, low, high = self._chance.choices(SIZES, [share for share, *_ in SIZES])[0]
        return self._chance.randint(low, high)

    def _headers(self, number: int) -> dict[str, Any]:
        return {"x-check": f"check-{number}", **(RICH_HEADERS if self._is_rich else {})}

    def _ends(self, kind: DocumentKind) -> frozenset[str]:
        if "late" in kind.traits:
            return frozenset({DELIVERED, REJECTED})
        if "cancel" in kind.traits:
            return frozenset({CANCELLED} if "scheduled" in kind.traits else {DELIVERED, CANCELLED})
        if kind.save_fwd == 3:
            return frozenset({DELIVERED})
        if not kind.ack2:
            return frozenset({OPEN, DROPPED} if kind.save_fwd == 1 else {OPEN})
        return frozenset({DELIVERED, UNKNOWN, *({DROPPED} if kind.save_fwd == 1 else ())})
