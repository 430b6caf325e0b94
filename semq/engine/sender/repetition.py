"""Repetition: a document that ended without delivery is submitted again for an operator (`semq failed requeue`).

The new document has the target, attributes, body and token of the old one, and a new LK0. ``submission`` checks and
accepts it like any other, and deletes the row of the old one in the same transaction, so that a document is repeated
once, however often that is requested. The ledger names each in a line of the other.
"""

from collections.abc import Callable
from copy import copy
from typing import NamedTuple

from msgspec.structs import replace

from semq.engine.core import Core, with_why
from semq.engine.errors import NotThere, PayloadGone
from semq.engine.ports import RepeatedDocument, Submission
from semq.engine.sender.endings import is_kept
from semq.engine.stored_envelopes import decode_envelope
from semq.engine.time.expiry import is_expired
from semq.store.rows import Event, Outbound, Side
from semq.store.unit import Needs, Unit
from semq.store.work import COMMITTED, Steps, work
from semq.umx_t.envelope import Envelope
from semq.umx_t.locator import LK0


class RepeatableDocument(NamedTuple):
    """A document that can be repeated."""

    row: Outbound  #: a copy
    envelope: Envelope
    body: bytes  #: as stored: it may be sealed


@work
def read_repeatable(lk0: LK0, done: Callable[[RepeatableDocument], None]) -> Steps:
    """Read a document that can be repeated.

    Raises NotThere, PayloadGone, BodyUnreadable.
    """
    unit = yield Needs(outbound={lk0.object_id}, bodies={lk0.object_id})
    row, stored = _row(unit, lk0), unit.bodies.get(lk0.object_id)
    if not row.has_payload or stored is None:
        raise PayloadGone(lk0=str(lk0))
    if row.document:
        raise PayloadGone("The sender's node deletes the pieces of a document as they arrive.", lk0=str(lk0))
    found = RepeatableDocument(copy(row), decode_envelope(stored), stored.payload)
    yield COMMITTED
    done(found)


def repetition(old: RepeatableDocument, why: str, now_ms: int) -> Submission:
    """Return the submission of a document, with its body in clear. A time of expiry that has passed is left out."""
    attributes = old.envelope.attributes
    if is_expired(attributes.expires_at, now_ms):
        attributes = replace(attributes, expires_at=0)
    return Submission(
        old.envelope.target, attributes, old.body, done=lambda accepted: None, failed=lambda error: None,
        sender=old.envelope.sender, group=old.row.group, repeats=RepeatedDocument(old.row.lk0, why),
    )  # fmt: skip


def repetition_fault(unit: Unit, repeats: RepeatedDocument) -> NotThere | None:
    """Return the error if the old document was repeated or removed meanwhile, or has not ended without delivery."""
    try:
        _row(unit, repeats.lk0)
    except NotThere as error:
        return error.with_traceback(None)
    return None


def end_repeated(core: Core, unit: Unit, repeats: RepeatedDocument, new: Outbound) -> None:
    """Delete the row of the old document; its token goes to the new row, for the events of the application."""
    old = unit.outbound[repeats.lk0.object_id]
    new.token = old.token
    unit.delete_outbound(old)
    for detail in (with_why("to be sent again", repeats.why), f"continues as {new.lk0}"):
        unit.ledger.append(core.line(Side.SENDER, Event.OPERATOR, old, detail))


def _row(unit: Unit, lk0: LK0) -> Outbound:
    row = unit.outbound.get(lk0.object_id)
    if row is None or row.lk0 != lk0 or not is_kept(row):
        raise NotThere(lk0=str(lk0))
    return row
