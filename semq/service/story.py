"""The story of a message: a node's answer to another party, with protocol events and their times (section 20).

A question comes from another party through the hub (``platform_node.questions``, ``local_node.link.answers``). It must
be about a message between asker and answering node; others count as unknown. Details, which may contain tracebacks and
operators' texts, are left out, except the reason of a refusal, which the other end already has. A node with a
certificate signs its story for the asker's nonce, so that the hub can suppress a story, but not change or forge one.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from semq.engine.errors import NotThere
from semq.engine.secrecy.sealing import KeyHolder
from semq.foreign_text import shortened
from semq.seal.canonical import canonical
from semq.seal.errors import ReceiptForged
from semq.seal.keys import verify
from semq.seal.receipts import read_signature, write_signature
from semq.store.rows import Event, Side
from semq.umx_t.locator import parse_lk0

LINES_MAX = 500
STORY_BYTES_MAX = 256 * 1024
OWN_AFFAIRS = frozenset({Event.OPERATOR, Event.VIOLATION, Event.MISMATCH, Event.INQUIRED, Event.ANSWERED})
WITH_REASON = frozenset({Event.REJECTED})
IMPORTED = "imported: it has arrived through an older SEMQ"  # detail of a line, sent to the sender's import
FIELDS = ("at", "side", "event", "words", "att")


class StoryLine(msgspec.Struct, forbid_unknown_fields=True):
    """One event of a story."""

    at: int
    side: str
    event: str
    words: str
    att: int = 0
    detail: str = ""


def story_for(events: Sequence[Mapping[str, Any]], lk0: str, me: str, asker: str, hub: str) -> bytes:
    """Return the story for ``asker`` as bytes to sign. Raises NotThere if the message is not between the two."""
    source = str(parse_lk0(lk0).node)
    side = Side.SENDER if source == me else Side.RECEIVER
    lines = [line for line in events if _is_public(line) and line["side"] == side.name.lower()]
    # For a message sent here, only the line ACCEPTED names the target reliably; an impostor may have caused others.
    sent_to = {node_of(line) for line in lines if line["event"] == Event.ACCEPTED.name}
    if not lines or asker not in (sent_to if source == me else {source}) | {hub}:
        raise NotThere(id=lk0)
    return msgspec.json.encode([_line(line) for line in lines[:LINES_MAX]])


def _is_public(line: Mapping[str, Any]) -> bool:
    return Event[line["event"]] not in OWN_AFFAIRS or line["detail"] == IMPORTED


def node_of(line: Mapping[str, Any]) -> str:
    """Return the institution that a line is addressed to."""
    return str(line["target"]).partition("/")[0]


def _line(line: Mapping[str, Any]) -> StoryLine:
    detail = str(line["detail"]) if Event[line["event"]] in WITH_REASON else ""
    return StoryLine(**{name: line[name] for name in FIELDS}, detail=shortened(detail, 200))


def signed(keys: KeyHolder | None, teller: str, asker: str, nonce: str, lk0: str, story: bytes) -> str:
    """Return the signature of a story; empty if the node has no key."""
    key = keys.signing if keys is not None else None
    return "" if key is None else write_signature(key, _message(teller, asker, nonce, lk0, story))


def is_proved(
    keys: KeyHolder | None, teller: str, asker: str, nonce: str, lk0: str, story: bytes, signature: str
) -> bool:
    """Whether the story is signed by the answering node; False if no certificate of that node is known.

    Raises ReceiptForged if it has a certificate and has not signed, SignerUnknown, and the errors of ``verify``.
    """
    if keys is None or not keys.knows(teller):
        return False
    if not signature:
        raise ReceiptForged("It is not signed.", source=teller)
    name, signed = read_signature(signature)
    verify(keys.signer(teller, name), signed, _message(teller, asker, nonce, lk0, story))
    return True


def read(story: bytes) -> list[dict[str, Any]]:
    """Read the events of a story. Raises msgspec.DecodeError, UnicodeDecodeError, RecursionError."""
    return [msgspec.to_builtins(line) for line in msgspec.json.decode(story, type=list[StoryLine])[:LINES_MAX]]


def read_line(event: Mapping[str, Any]) -> dict[str, Any]:
    """Read a line of the hub's ledger. Raises ValueError, TypeError."""
    known = {name: event[name] for name in StoryLine.__struct_fields__ if name in event}
    return {**event, **msgspec.to_builtins(msgspec.convert(known, StoryLine))}


def _message(teller: str, asker: str, nonce: str, lk0: str, story: bytes) -> bytes:
    return canonical("semq story 1", teller, asker, nonce, lk0, sha256(story).digest())
