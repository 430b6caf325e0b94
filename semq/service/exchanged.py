"""A node's answer to a partner which documents both have exchanged since a time (PROTOCOL.md section 20).

A node whose store was restored from a backup asks this, to find what it has lost. The answer names documents of the
asker and the answering node only, in pages (``semq.store.views.exchanged``). It is signed like a story. A hub answers
which documents of the asker it has stored; its places begin with the number of its store, if it has several.
"""

from hashlib import sha256
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from semq.seal.canonical import canonical
from semq.store.views.exchanged import PLACE, ROWS_MAX
from semq.store.views.selection import NAME_MAX
from semq.umx_t.attribute_values import MOMENT_MAX
from semq.umx_t.records import Ident, Number

ADDRESS_MAX = 300  # characters of an address with a user
PLACES = rf"^([0-9]{{1,3}}~)?({PLACE[1:-1]})?$"


class ExchangedQuestion(msgspec.Struct, frozen=True):
    """The documents that are asked for."""

    since: Annotated[int, Meta(ge=0, le=MOMENT_MAX)]  #: ms since 1970
    place: Annotated[str, Meta(pattern=PLACES, max_length=60)] = ""  #: ``next`` of the page before

    @property
    def store(self) -> int:
        """The number of the hub's store, from 0."""
        return int(self.place.rpartition("~")[0] or 0)

    @property
    def place_in_store(self) -> str:
        """The place without the number of a store."""
        return self.place.rpartition("~")[2]


class ExchangedDocument(msgspec.Struct, frozen=True):
    """A document that the answering node sent and has the receipt of, or that it has received or, as a hub, stored."""

    lk0: Ident
    #: ms since 1970, by the clock of the answering node: its receipt was noted, or it was recorded
    at: Annotated[int, Meta(ge=0, le=MOMENT_MAX)]
    side: Literal["sender", "receiver", "hub"]  #: of the answering node
    target: Annotated[str, Meta(max_length=ADDRESS_MAX)] = ""
    app_key: Annotated[str, Meta(max_length=NAME_MAX)] = ""
    size: Number = 0


class ExchangedPage(msgspec.Struct, frozen=True):
    """An answer."""

    rows: Annotated[tuple[ExchangedDocument, ...], Meta(max_length=ROWS_MAX)]
    next: Annotated[str, Meta(max_length=60)] = ""  #: place of the next page; empty: this is the last one


def question_bytes(asker: str, partner: str, nonce: str, question: ExchangedQuestion) -> bytes:
    """Return the bytes that the signature of a question covers, so that the hub cannot ask in a node's name."""
    return canonical("semq exchanged question 1", asker, partner, nonce, question.since, question.place)


def signed_bytes(answerer: str, asker: str, nonce: str, question: ExchangedQuestion, page: bytes) -> bytes:
    """Return the bytes that the signature of an answer covers."""
    asked = (question.since, question.place)
    return canonical("semq exchanged 1", answerer, asker, nonce, *asked, sha256(page).digest())
