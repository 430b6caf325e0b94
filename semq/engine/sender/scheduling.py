"""Scheduled documents (@NotBefore), which wait as submissions and become messages at their time (PROTOCOL.md section
23).

A scheduled document is committed to tb_0031_submit, without a position in a stream or an order. After its release,
``local_node.doors`` submits it, and it is sealed then.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from semq.engine import errors
from semq.engine.core import Core
from semq.engine.ports import Accepted, Submission
from semq.engine.stored_envelopes import decode_envelope, encode_envelope
from semq.errors import SemqError
from semq.moments import moment_text
from semq.store.rows import Stored, Submitted
from semq.store.unit import DueSubmissions, Needs, OpenSubmission, TokenSubmissions, Unit
from semq.store.work import COMMITTED, Steps, work
from semq.umx_t.envelope import Envelope
from semq.umx_t.errors import BadAttribute, BadCombination
from semq.umx_t.locator import parse_lk0
from semq.umx_t.pieces import AFTER_PIECES_MS, read_manifest

DUE_MAX = 200  # documents that one unit releases, at most: fewer than one read of submissions finds


def check_times(submission: Submission) -> None:
    """Check the times of a document. Raises BadCombination if it would expire before it may be sent.

    Raises BadAttribute for times that are reserved for documents in pieces.
    """
    if submission.not_before >= AFTER_PIECES_MS:
        raise BadAttribute("@NotBefore is a time before the year 9000.", attribute="@NotBefore")
    expires_at = submission.attributes.expires_at
    if 0 < expires_at <= submission.not_before:
        raise BadCombination(
            "The document would expire (@ExpiresAt) before it may be sent (@NotBefore).",
            expires_at=moment_text(expires_at), not_before=moment_text(submission.not_before),
        ).with_remedy("Set @ExpiresAt to a time after @NotBefore, or leave one of them out.")  # fmt: skip


def envelope_of(row: Submitted) -> Envelope:
    """Return the envelope of a scheduled document. Raises BodyUnreadable."""
    return decode_envelope(Stored(row.envelope, b""))


@work
def schedule(
    core: Core, submissions: Sequence[Submission], faults: Mapping[int, SemqError], done: Callable[[int], None]
) -> Steps:
    """Commit documents that have to wait, or answer repeated tokens. ``faults``: by index in ``submissions``.

    ``done`` gets the earliest release time (``not_before``) of the new documents; 0 if there are none.
    """
    tokens = tuple(sorted({each.token for each in submissions if each.token}))
    query = TokenSubmissions(tokens)
    unit = yield Needs(tokens=set(tokens), queries={query} if tokens else set())
    settled = {*unit.taken_submissions, *unit.refused_submissions, *unit.removed_submissions}
    rows = [row for row in unit.found.get(query, ()) if row.row_id not in settled]
    waiting: dict[str, Submitted] = {row.token: row for row in (*rows, *unit.new_submissions.values()) if row.token}
    accepted: list[tuple[Submission, Accepted]] = []
    refused: list[tuple[Submission, SemqError]] = []
    for index, submission in enumerate(submissions):
        known = _known(unit, waiting, submission.token) if submission.token else None
        fault: SemqError | None = faults.get(index) if known is None else None
        if submission.is_withdrawn:
            fault = errors.Withdrawn()
        elif known is not None and known.digest != submission.digest:
            fault = errors.TokenReused(token=submission.token, lk0=str(known.lk0))
        if fault is not None and submission.is_whole:
            raise fault
        if fault is not None:
            submission.note_refused(fault)
            refused.append((submission, fault))
        else:
            if known is None:
                row = _row(core, submission)
                unit.new_submissions[row.row_id] = waiting[submission.token] = row
                known = Accepted(parse_lk0(row.lk0), submission.digest, not_before=row.not_before)
            accepted.append((submission, known))
    yield COMMITTED
    new = [each.not_before for _, each in accepted if not each.repeated]
    core.count("scheduled", len(new))
    done(min(new, default=0))
    for submission, each in accepted:
        submission.done(each)
    for submission, error in refused:
        submission.failed(error)


def _known(unit: Unit, waiting: Mapping[str, Submitted], token: str) -> Accepted | None:
    """Return the answer to a repeated token; None if the token is new."""
    message, row = unit.tokens.get(token), waiting.get(token)
    if message is not None:
        return Accepted(message.lk0, message.digest, repeated=True)
    if row is None:
        return None
    return Accepted(parse_lk0(row.lk0), envelope_of(row).digest, repeated=True, not_before=row.not_before)


def _row(core: Core, submission: Submission) -> Submitted:
    a, lk0 = submission.attributes, submission.name or core.new_lk0()
    envelope = Envelope(
        source=core.address, target=submission.target, lk0=lk0, attributes=a, sender=submission.sender,
        digest=submission.digest, submitted_at=core.now_ms(),
    )  # fmt: skip
    return Submitted(
        lk0.object_id, str(submission.target), bytes(submission.body), str(a.app_key), int(a.save_fwd), int(a.ack2),
        a.order_key, submission.token, a.content_type, _in_pieces(submission), a.content_encoding, a.priority,
        len(submission.body), str(lk0), envelope=encode_envelope(envelope), not_before=submission.not_before,
    )  # fmt: skip


def _in_pieces(submission: Submission) -> str:
    """Return size and number of pieces of a document in pieces, as JSON."""
    if not submission.attributes.pieces:
        return "{}"
    manifest = read_manifest(bytes(submission.body))
    return json.dumps({"size": manifest.size, "pieces": manifest.count})


@work
def release_due(core: Core, done: Callable[[int, int], None]) -> Steps:
    """Release the scheduled documents that are due. ``done`` gets their number, and the time of the next release (0:
    none)."""
    now = core.now_ms()
    query = DueSubmissions(now, DUE_MAX)
    unit = yield Needs(queries={query})
    settled = {*unit.taken_submissions, *unit.due_submissions}
    found = [(number, at) for number, at in unit.found.get(query, ()) if number not in settled]
    due = [number for number, at in found if at <= now]
    unit.due_submissions.update(due)
    yield COMMITTED
    done(len(due), next((at for _, at in found if at > now), 0))


@work
def release_early(number: int, done: Callable[[], None]) -> Steps:
    """Release one scheduled document before its time. Raises NotThere."""
    query = OpenSubmission(number)
    unit = yield Needs(queries={query})
    settled = {*unit.taken_submissions, *unit.due_submissions}
    if not any(row.not_before and row.row_id not in settled for row in unit.found.get(query, ())):
        raise errors.NotThere("No document of this number is scheduled (any more).", number=number)
    unit.due_submissions.add(number)
    yield COMMITTED
    done()
