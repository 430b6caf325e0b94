"""The story of a message: its events and their times, as a node's answer to another party (PROTOCOL.md section 20).

A message that did not go between the asker and the answering node counts as unknown, except to the hub. Of the details,
which may contain tracebacks and operators' texts, only the reason of a refusal is included. A node with a certificate
signs its story together with the asker's nonce, so that the hub can neither change nor forge it.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, TypedDict, cast

import msgspec

from semq.answers.messages import TracedLine
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
PRIVATE_EVENTS = frozenset({Event.OPERATOR, Event.VIOLATION, Event.MISMATCH, Event.INQUIRED, Event.ANSWERED})
WITH_REASON = frozenset({Event.REJECTED})
# Detail of the ledger line that the import at a receiver writes about a message of an older SEMQ that has arrived. The
# import at the sender asks for the story, and learns of the arrival from this line.
IMPORTED = "imported: it has arrived through an older SEMQ"
FIELDS = ("at", "side", "event", "words", "att")


class PartyAnswer(TypedDict, total=False):
    """The answer of a party to a question about a message, or about exchanged documents."""

    node: str
    story: str  #: JSON, which ``signature`` covers
    signature: str
    unanswered: str  #: why there is no answer


class AskAnswer(TypedDict, total=False):
    """An answer of exchange ``semq.ask`` (PROTOCOL.md section 20)."""

    node: str
    events: Sequence[Mapping[str, object]]  #: lines of the answering node's ledger
    unreached: list[str]  #: stores of a hub that could not be asked
    other: PartyAnswer


class StoryLine(msgspec.Struct, forbid_unknown_fields=True):
    """One event of a story."""

    at: int  #: ms since 1970
    side: str
    event: str
    words: str  #: the event for people
    att: int = 0  #: the attempt (header ``@Att``)
    detail: str = ""


def story_for(events: Sequence[Mapping[str, object]], lk0: str, me: str, asker: str, hub: str) -> bytes:
    """Return the story for ``asker`` as bytes to sign. ``me`` is the answering node.

    Raises NotThere if no event is public, or if the asker is neither the hub nor the other party of the message.
    """
    source = str(parse_lk0(lk0).node)
    side = Side.SENDER if source == me else Side.RECEIVER
    lines = [line for line in events if _is_public(line) and line["side"] == side.name.lower()]
    # Only the line ACCEPTED names the target reliably; an impostor may have caused the others.
    targets = {target_node(line) for line in lines if line["event"] == Event.ACCEPTED.name}
    if not lines or asker not in (targets if source == me else {source}) | {hub}:
        raise NotThere(id=lk0)
    return msgspec.json.encode([_story_line(line) for line in lines[:LINES_MAX]])


def _is_public(line: Mapping[str, object]) -> bool:
    return Event[str(line["event"])] not in PRIVATE_EVENTS or line["detail"] == IMPORTED


def target_node(line: Mapping[str, object]) -> str:
    """Return the institution in the target of a ledger line."""
    return str(line["target"]).partition("/")[0]


def _story_line(line: Mapping[str, Any]) -> StoryLine:
    detail = str(line["detail"]) if Event[line["event"]] in WITH_REASON else ""
    return StoryLine(**{name: line[name] for name in FIELDS}, detail=shortened(detail, 200))


def sign(keys: KeyHolder | None, signed: bytes) -> str:
    """Return the signature of an answer; empty if the node has no key. ``signed``: see ``signed_bytes``."""
    key = keys.signing if keys is not None else None
    return "" if key is None else write_signature(key, signed)


def is_proved(keys: KeyHolder | None, answerer: str, signed: bytes, signature: str) -> bool:
    """Whether the answering node has signed its answer; False if no certificate of that node is known.

    Raises ReceiptForged if the signature is missing, SignerUnknown, and the errors of ``verify``.
    """
    if keys is None or not keys.knows(answerer):
        return False
    if not signature:
        raise ReceiptForged("The question or answer is not signed.", source=answerer)
    key_id, signature_bytes = read_signature(signature)
    verify(keys.signer(answerer, key_id), signature_bytes, signed)
    return True


def read(story: bytes) -> list[TracedLine]:
    """Read the events of a story. Raises msgspec.DecodeError, UnicodeDecodeError, RecursionError."""
    return [msgspec.to_builtins(line) for line in msgspec.json.decode(story, type=list[StoryLine])[:LINES_MAX]]


def checked_event(event: Mapping[str, object]) -> TracedLine:
    """Return an event of the hub's own ledger, with the fields of a story line checked.

    Raises ValueError, TypeError.
    """
    fields = {name: event[name] for name in StoryLine.__struct_fields__ if name in event}
    return cast(TracedLine, {**event, **msgspec.to_builtins(msgspec.convert(fields, StoryLine))})


def signed_bytes(answerer: str, asker: str, nonce: str, lk0: str, story: bytes) -> bytes:
    """Return the bytes that the signature of a story covers."""
    return canonical("semq story 1", answerer, asker, nonce, lk0, sha256(story).digest())
