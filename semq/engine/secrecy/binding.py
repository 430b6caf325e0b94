"""The data that seals and signatures cover: the attributes set by a document's sender, and the place (LK0, sid, prev).

The seal must hold for every copy and attempt, and for a ciphertext sent again as a new message (PROTOCOL.md section
12). Therefore it excludes attributes that change on the way: transport source, attempt, floor, LK1, and the receiver's
key id. The place is that of the first message with the ciphertext; a later message names it in @Origin.

A ciphertext cannot be replayed under a new place: the wrapped session key of a message sent again is signed for one
place and one origin (``resent``).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from semq.amqp.wire import decode_fields
from semq.seal.canonical import canonical, tagged
from semq.umx_t.attributes import ATTRIBUTES, HEADERS, Attribute, BoundBy, value_reader
from semq.umx_t.envelope import Envelope


def place_of(envelope: Envelope) -> str:
    """Return the place of a message in the form of @Origin."""
    return f"{envelope.ident} {envelope.sid} {envelope.prev or '-'}"


def session_name(envelope: Envelope) -> str:
    """Return the name of a document's session key; empty for a document in clear."""
    return envelope.session_key.split(".", 2)[1] if envelope.session_key else ""


def marker_content(envelope: Envelope) -> bytes:
    """Return the signed content of a void marker."""
    a = envelope.attributes
    return canonical(
        "semq marker 1",
        str(envelope.lk0.node),
        str(envelope.target),
        place_of(envelope),
        a.order_key,
        list(a.app_key),
    )


def document_content(envelope: Envelope) -> bytes:
    """Return the signed content of a document, without the size of its body."""
    seal = (envelope.session_key, envelope.alg, envelope.key_id, envelope.origin)
    return canonical("semq document 2", place_of(envelope), *_attributes(envelope), envelope.attributes.encrypt, *seal)


class Sealed(NamedTuple):
    """The message for which a ciphertext was made."""

    ident: str
    place: str
    resent: str  #: text that the signature of the session key must cover, too; empty without an origin


def sealed_as(envelope: Envelope) -> Sealed:
    """Return the message for which the body of ``envelope`` was sealed."""
    place = place_of(envelope)
    if not envelope.origin:
        return Sealed(place.partition(" ")[0], place, "")
    return Sealed(envelope.origin.partition(" ")[0], envelope.origin, f"{place} for {envelope.origin}")


def authenticated_data(envelope: Envelope, place: str, session_id: bytes, size: int) -> bytes:
    """Return the authenticated data of a ciphertext. ``size``: bytes of the payload. Raises HeaderUnfit."""
    facts = _attributes(envelope)
    return canonical("semq document 1", session_id, place, *facts[:5], size, *facts[5:])


def later_facts(rows: Iterable[Attribute]) -> Callable[[Envelope], tuple[object, ...]] | None:
    """Return a function for the facts added after version 1; None if ``rows`` has none.

    The function returns a tuple with a mapping of the values that are not defaults. If all are defaults, the tuple
    is empty, so that older nodes can verify the document.
    """
    kept = [row for row in rows if row.since > 1 and row.bound is BoundBy.FACT]
    values_of = value_reader(kept)

    def facts(envelope: Envelope) -> tuple[object, ...]:
        used = zip(kept, values_of(envelope), strict=True)
        named = {row.name: tagged(value) for row, value in used if value != row.default}
        return (named,) if named else ()

    return facts if kept else None


# The facts of version 1, in order. ``_attributes`` converts the first two and the last.
_OF_VERSION_1 = sorted((row for row in ATTRIBUTES if row.fact), key=lambda row: row.fact)
_NODE, _TARGET, *_PLAIN, _HEADERS = _OF_VERSION_1
assert (_NODE.field, _TARGET.field, _HEADERS.name) == ("lk0", "target", HEADERS)
_plain = value_reader(_PLAIN)
_later = later_facts(ATTRIBUTES)


def _attributes(envelope: Envelope) -> tuple[object, ...]:
    """Return the facts of a document (PROTOCOL.md section 27). Raises HeaderUnfit."""
    headers = envelope.attributes.user_headers
    facts = (
        str(envelope.lk0.node),
        str(envelope.target),
        *_plain(envelope),
        tagged(decode_fields(headers)) if headers else None,
    )
    return facts if _later is None else facts + _later(envelope)
