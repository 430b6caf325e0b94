"""The documents of a campaign: drawn from its seed, identified by their first line, the same bytes at each repetition.

No bodies are kept: a body and its digest are calculated again whenever they are needed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import Any

MUST, STORE, DROP = 3, 2, 1  # @SaveFwd

# share | @SaveFwd | @Ack2
CLASSES = [
    (55, MUST, 1),
    (25, MUST, 0),
    (8, STORE, 1),
    (4, STORE, 0),
    (4, DROP, 1),
    (4, DROP, 0),
]
# share | bytes of the body after its first line, from and to
SIZES = [
    (80, 60, 2_500),
    (16, 2_500, 20_000),
    (3, 100_000, 180_000),  # one frame or two
    (1, 400_000, 700_000),
]
GROUP_SHARE = 0.1  # share of documents to the group, among those of class 3 that ``DocumentStream.next`` draws
LARGE = (2 << 20, 5 << 20)  # bytes of a document in pieces after its first line
PIECES_FROM = 1 << 20  # larger documents are sent in pieces


@dataclass(frozen=True, slots=True)
class CrashDocument:
    """One document. ``number`` counts the documents of its institution from 1."""

    seed: int
    source: str
    targets: tuple[str, ...]  #: more than one: the members of the group, except for the source
    number: int
    save_fwd: int
    ack2: int
    order_key: str
    size: int  #: bytes of the body after its first line
    sealed: bool = False

    @property
    def token(self) -> str:
        """@Token of the submission."""
        return f"{self.seed}-{self.source}-{self.number}"

    @property
    def is_to_group(self) -> bool:
        """Whether it was submitted once for all members of the group."""
        return len(self.targets) > 1

    @property
    def body(self) -> bytes:
        """The body: the token in a line, then bytes derived from it."""
        return f"{self.token}\n".encode() + Random(self.token).randbytes(self.size)

    @property
    def digest(self) -> str:
        """SHA-256 of the body, hexadecimal."""
        return sha256(self.body).hexdigest()

    @property
    def headers(self) -> dict[str, Any]:
        headers: dict[str, Any] = {
            "@SaveFwd": self.save_fwd,
            "@Ack2": self.ack2,
            "@Token": self.token,
            "@AppKey": f"crash/document/{self.source}/{self.number}",
        }
        if self.order_key:
            headers["@OrderKey"] = self.order_key
        if self.sealed:
            headers["@Encrypt"] = 1
        return headers


def source_of(token: str) -> str:
    return token.partition("-")[2].rpartition("-")[0]


def token_of(body: bytes) -> str:
    """Return the token in a document."""
    return body.partition(b"\n")[0].decode("ascii", "replace")


class DocumentStream:
    """The endless stream of documents of one institution."""

    def __init__(
        self, seed: int, source: str, target: str, *, sealed: bool = False, members: tuple[str, ...] = ()
    ) -> None:
        """``members``: the members of the group, without the source.

        ``sealed``: most documents are sealed. Those of class 3 have @Ack2=1: with @Ack2=0 the sender deletes the body
        once the hub has custody, so it could not seal the document again after its key is revoked.
        """
        self._sealed = sealed
        self._seed = seed
        self.source = source
        self._targets = (target,)
        self._members = members
        self._chance = Random(f"{seed}/documents/{source}")
        self._number = 0
        self.accepted: list[CrashDocument] = []  #: documents whose acceptance was confirmed, in that order

    def next(self, order_key: str = "") -> CrashDocument:
        """Return the next document; with an order key it has class 3."""
        self._number += 1
        save_fwd, ack2 = (MUST, self._chance.randrange(2)) if order_key else self._draw_class()
        _, low, high = self._chance.choices(SIZES, [share for share, *_ in SIZES])[0]
        size = self._chance.randint(low, high)
        sealed = self._sealed and self._number % 4 != 0
        ack2 = 1 if self._sealed and save_fwd == MUST else ack2
        is_to_group = self._members and save_fwd == MUST and self._chance.random() < GROUP_SHARE
        targets = self._members if is_to_group else self._targets
        return CrashDocument(self._seed, self.source, targets, self._number, save_fwd, ack2, order_key, size, sealed)

    def next_large(self) -> CrashDocument:
        """Return the next document, of a random size that is sent in pieces."""
        return self.next_of_size(self._chance.randint(*LARGE))

    def next_of_size(self, size: int) -> CrashDocument:
        """Return the next document, with ``size`` bytes after its first line; above PIECES_FROM, it goes in pieces."""
        self._number += 1
        return CrashDocument(self._seed, self.source, self._targets, self._number, MUST, 1, "", size, self._sealed)

    def _draw_class(self) -> tuple[int, int]:
        _, save_fwd, ack2 = self._chance.choices(CLASSES, [share for share, *_ in CLASSES])[0]
        return save_fwd, ack2

    def must_arrive(self, target: str) -> Iterator[CrashDocument]:
        """Return the accepted documents of class 3 for an institution, also those to the group."""
        return (document for document in self.accepted if document.save_fwd == MUST and target in document.targets)
