"""S1: documents become rows (PROTOCOL.md sections 5.1 and 14).

Documents that are submitted together are committed together, except scheduled, large and refused ones. If the link is
up and no document waits, one transaction includes S1 and S2.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from hashlib import sha256
from typing import TypeVar

from msgspec.structs import replace

from semq.engine import errors
from semq.engine.agreements import agreed_terms
from semq.engine.core import Core
from semq.engine.latency import Stage
from semq.engine.partners import Partners
from semq.engine.ports import Accepted, PreparedEvent, Seal, Secrecy, Submission
from semq.engine.sender.accepted_lines import detail_of_submission
from semq.engine.sender.admission import Destination, DocumentsUnderWay
from semq.engine.sender.groups import GroupExpansion, is_group, messages, needs_of
from semq.engine.sender.outbound import OutboundRows
from semq.engine.sender.positions import in_sequence, take_position
from semq.engine.sender.repetition import end_repeated, repetition_fault
from semq.engine.sender.scheduling import check_times, schedule
from semq.engine.stored_envelopes import encode_envelope
from semq.engine.tracks import level
from semq.engine.uplink import NodeSessions
from semq.errors import BadInput, SemqError, Unavailable
from semq.moments import moment_text
from semq.store.rows import Event, GroupPlace, LedgerLine, Outbound, OutStreamKey, Side, Stored
from semq.store.unit import Unit
from semq.store.work import COMMITTED, SENT_BODIES, Steps, work
from semq.umx_t.address import Address
from semq.umx_t.envelope import Body, Data, Envelope
from semq.umx_t.errors import BadAddress
from semq.umx_t.headers import check_combination
from semq.umx_t.pieces import AFTER_PIECES_MS, PIECES_USER
from semq.umx_t.status import Direction, Outcome, SaveFwd, SendStatus

T = TypeVar("T")


class Acceptance:
    """Checks and accepts submissions."""

    def __init__(
        self, core: Core, rows: OutboundRows, partners: Partners, secrecy: Secrecy, uplink: NodeSessions
    ) -> None:
        self.core = core
        self.rows = rows
        self._uplink = uplink
        self.partners = partners
        self.secrecy = secrecy
        self.groups = GroupExpansion(partners)
        self.stopping = False
        self._under_way = DocumentsUnderWay()
        self._on_scheduled: Callable[[int], None] = lambda at: None

    def report_scheduled(self, callback: Callable[[int], None]) -> None:
        """Call ``callback`` after the commit of each scheduled document, with its earliest time of sending."""
        self._on_scheduled = callback

    def stop(self) -> None:
        self.stopping = True

    def take_over(self, old: "Acceptance") -> None:
        """Continue for the previous engine."""
        self.stopping, self._on_scheduled = old.stopping, old._on_scheduled

    def submit(self, submissions: Sequence[Submission]) -> None:
        """Check documents and commit those that pass; call ``done`` or ``failed`` of each.

        If they are parts of a transaction (``is_whole``), raise the error of the first that does not pass.
        """
        at_once, later = list[Submission](), list[Submission]()
        faults, faults_later = dict[int, SemqError](), dict[int, SemqError]()
        for submission in submissions:
            if submission.is_withdrawn:
                submission.failed(errors.Withdrawn())
                continue
            is_later = submission.not_before > 0 and submission.not_before > self.core.now_ms()
            group, group_faults = (later, faults_later) if is_later else (at_once, faults)
            try:
                self._check(submission)
                fault = self._fault(submission, is_later=is_later)
            except SemqError as error:
                self.core.count("refused")
                _hold(submission, error)
                submission.note_refused(error)
                if submission.is_whole:
                    self._take_back(submissions, error)
                    raise
                submission.failed(error)
                continue
            if fault is not None:
                _hold(submission, fault)
                group_faults[len(group)] = fault
            elif not is_later:
                self._under_way.begin(submission)
            group.append(submission)
        if at_once:
            self._post_now(at_once, faults)
        for index, submission in enumerate(later):
            self._post_later(submission, faults_later.get(index))

    def _take_back(self, submissions: Sequence[Submission], error: SemqError) -> None:
        """Refuse all documents of a transaction, those included that were found acceptable."""
        for message in messages([each for each in submissions if each.is_under_way]):
            self._give_back_rate(message)
        self._under_way.end(submissions)
        for submission in submissions:
            submission.failed(error)

    def check_in_pieces(self, submission: Submission, size: int) -> None:
        """Check a document of ``size`` bytes that will be sent in pieces. Raises SemqError."""
        attributes = submission.attributes
        if self.stopping:
            raise errors.Stopping
        check_combination(attributes)
        has_turn_or_time = attributes.order_key or attributes.fixed or submission.not_before
        if attributes.save_fwd is not SaveFwd.MUST or has_turn_or_time or is_group(submission.target):
            raise errors.DocumentTooLarge(size=size, allowed=self.core.settings.max_document_bytes).with_remedy(
                "Only documents with @SaveFwd=3, and without @OrderKey, @Fixed and @NotBefore, are sent in pieces;"
                " others, and those to groups, must not be larger than protocol.max_document_bytes."
            )
        if attributes.expires_at and attributes.expires_at <= self.core.now_ms():
            raise errors.Expired(expires_at=moment_text(attributes.expires_at))
        self._check_user(submission)
        self._check_partner(submission, size)

    def submit_in_pieces(self, submission: Submission, faults: Mapping[int, SemqError]) -> None:
        """Accept the manifest of a document whose pieces are posted before; it waits until they are at the target. If
        one was not stored, ``faults`` has its error at 0 when the manifest is decided."""
        if submission.is_withdrawn:
            submission.failed(errors.Withdrawn())
            return
        submission.not_before = AFTER_PIECES_MS
        submission.digest = sha256(submission.body).digest()
        self.core.post(schedule(self.core, [submission], faults, lambda at: None), failed=submission.failed)

    @staticmethod
    def _check_user(submission: Submission) -> None:
        if submission.target.user == PIECES_USER and not submission.attributes.pieces:
            raise BadAddress("This user is reserved for pieces of documents.", address=str(submission.target))

    def _post_later(self, submission: Submission, fault: SemqError | None) -> None:
        faults = {} if fault is None else {0: fault}
        self.core.post(schedule(self.core, [submission], faults, self._scheduled), failed=submission.failed)

    def _scheduled(self, at: int) -> None:
        if at:
            self._on_scheduled(at)

    def _post_now(self, submissions: list[Submission], faults: Mapping[int, SemqError]) -> None:
        large = [index for index, submission in enumerate(submissions) if self._is_stored_ahead(submission)]
        if not large:
            self._post(submissions, faults)
            return
        others = [index for index in range(len(submissions)) if index not in large]
        for batch in ([others] if others else []) + [[index] for index in large]:
            chosen = {at: faults[index] for at, index in enumerate(batch) if index in faults}
            self._post([submissions[index] for index in batch], chosen)

    def _is_stored_ahead(self, submission: Submission) -> bool:
        """Whether the body of a document is stored before its row, so that others may overtake it. Sealing needs the
        position, so a document to be sealed is not stored ahead."""
        if len(submission.body) < self.core.settings.ahead_bytes or submission.seal is not None or submission.members:
            return False
        a = submission.attributes
        return a.save_fwd is SaveFwd.MUST and not a.order_key and isinstance(submission.body, bytes)

    def _post(self, submissions: list[Submission], faults: Mapping[int, SemqError]) -> None:
        ahead = [(SENT_BODIES, bytes(each.body)) for each in submissions if self._is_stored_ahead(each)]
        self.core.post(
            self._accept(submissions, faults, self.core.now()), failed=partial(self._failed, submissions, faults),
            ahead=ahead,
        )  # fmt: skip

    @work
    def _accept(self, submissions: Sequence[Submission], faults: Mapping[int, SemqError], began: float) -> Steps:
        """Accept or refuse documents in one unit. ``faults``: by index in ``submissions``."""
        unit = yield needs_of(self.core.inc, submissions)
        accepted = _UnitAcceptance(self.core, self.rows, unit, began, self._uplink)
        for index, submission in enumerate(submissions):
            accepted.decide(submission, faults.get(index))
        yield COMMITTED
        self._under_way.end(submissions)
        accepted.apply()

    def _failed(self, submissions: list[Submission], faults: Mapping[int, SemqError], error: Exception) -> None:
        if len(submissions) > 1 and not (isinstance(error, Unavailable) or submissions[0].is_whole):
            # The store does not report which document failed.
            self._post_in_turn([(submission, faults.get(index)) for index, submission in enumerate(submissions)])
            return
        self._under_way.end(submissions)
        for submission in submissions:
            submission.failed(error)

    def _post_in_turn(self, remaining: list[tuple[Submission, SemqError | None]]) -> None:
        """Post each document when the one before is decided: if that one has to wait, later ones in its sequence wait,
        too."""
        (submission, fault), *others = remaining
        done, failed = submission.done, submission.failed

        def go_on(report: Callable[[T], None], result: T) -> None:
            if isinstance(result, Exception):
                _hold(submission, result)
            report(result)
            if others:
                self._post_in_turn(others)

        submission.done, submission.failed = partial(go_on, done), partial(go_on, failed)
        try:
            _check_held(submission)
        except SemqError as error:
            fault = fault or error
        self._post([submission], {0: fault} if fault else {})

    def _check(self, submission: Submission) -> None:
        """Check what must hold also for a repeated token; set digest and order key. Raises SemqError."""
        settings = self.core.settings
        if self.stopping:
            raise errors.Stopping
        self._check_user(submission)
        submission.attributes = check_combination(submission.attributes)
        if not is_group(submission.target):  # each member of a group gets the sequence of its own address
            submission.attributes = in_sequence(submission.attributes, submission.target)
        if len(submission.body) > settings.max_document_bytes:
            raise errors.DocumentTooLarge(size=len(submission.body), allowed=settings.max_document_bytes)
        submission.digest = sha256(submission.body).digest()

    def _fault(self, submission: Submission, *, is_later: bool) -> SemqError | None:
        """Check whether a document may be accepted now. With a token, return the fault, because the document may have
        been accepted before; without a token, raise it."""
        try:
            _check_held(submission)
            if is_later:
                self._check_later(submission)
            else:
                self._check_now(submission)
        except SemqError as error:
            if submission.token:
                return error.with_traceback(None)  # traceback and submission would form a cycle
            raise
        return None

    def _check_later(self, submission: Submission) -> None:
        """Check a scheduled document; rate, quota and keys are checked when it is due."""
        check_times(submission)
        self._check_partner(submission, len(submission.body))

    def _check_partner(self, submission: Submission, size: int) -> None:
        if is_group(submission.target):
            self.groups.targets_of(submission, size)
        elif submission.target.node != self.core.address:
            dest = str(submission.target.node)
            self.partners.check(dest)
            agreed = self.partners.terms.get(dest)
            if agreed is not None:
                agreed_terms(agreed, dest, submission.attributes.app_key, size)

    def _check_now(self, submission: Submission) -> None:
        if submission.attributes.expires_at and submission.attributes.expires_at <= self.core.now_ms():
            raise errors.Expired(expires_at=moment_text(submission.attributes.expires_at))
        if is_group(submission.target):
            self.groups.expand(submission, self._check_target, self._take_rate, self._give_back_rate)
        else:
            self._check_target(submission)
            # Last: refused documents do not use up the rate.
            self._take_rate(submission)

    def _check_target(self, submission: Submission) -> None:
        settings = self.core.settings
        dest = str(submission.target.node)
        if submission.target.node != self.core.address:
            self.partners.check(dest)
            key = submission.attributes.app_key
            terms = self.partners.check_agreement(dest, key, len(submission.body), self._waiting(dest))
            if terms is not None and terms.encrypt and not submission.attributes.encrypt:
                submission.attributes = replace(submission.attributes, encrypt=True)
        if (waiting := self._waiting(dest)) >= settings.quota_rows_per_partner:
            raise errors.QuotaReached(target=dest, waiting=waiting)
        submission.seal = self.secrecy.seal_for(submission.target, submission.attributes)
        if submission.seal is not None and not submission.attributes.encrypt:
            submission.attributes = replace(submission.attributes, encrypt=True)

    def _waiting(self, dest: str) -> int:
        """Return the number of documents to a node that are not settled, those under way included."""
        return self.rows.unsettled.get(dest, 0) + self._under_way.count(dest)

    def _take_rate(self, submission: Submission) -> None:
        self.partners.take_rate(str(submission.target.node), submission.attributes.app_key, self.core.now())

    def _give_back_rate(self, submission: Submission) -> None:
        self.partners.give_back_rate(str(submission.target.node), submission.attributes.app_key, self.core.now())


def _check_held(submission: Submission) -> None:
    if submission.held is not None:
        submission.held.check(submission.row_id, submission.attributes, submission.target)


def _hold(submission: Submission, error: Exception) -> None:
    """Let later submissions of the sequence wait if this one waits; a refused one is left out of the order."""
    if submission.held is not None and not isinstance(error, BadInput):
        submission.held.hold(submission.row_id, submission.attributes, submission.target)


class _UnitAcceptance:
    def __init__(self, core: Core, rows: OutboundRows, unit: Unit, began: float, uplink: NodeSessions) -> None:
        """``began``: when the documents were submitted (monotonic seconds)."""
        self._uplink = uplink
        self._core = core
        self._rows = rows
        self._unit = unit
        self._began = began
        self._at = core.now_ms()
        self._accepted: list[tuple[Submission, Accepted]] = []
        self._refused: list[tuple[Submission, SemqError]] = []
        self._destinations: dict[Address, Destination] = {}
        self._new_seals: list[Seal] = []
        self._events: list[PreparedEvent] = []
        self._unkept: list[Outbound] = []  #: documents that are sent and not stored

    def decide(self, submission: Submission, fault: SemqError | None) -> None:
        """Accept a document, answer a repeated token, or refuse the document."""
        known = self._unit.tokens.get(submission.token) if submission.token else None
        if fault is None and submission.repeats is not None:
            fault = repetition_fault(self._unit, submission.repeats)
        if submission.is_withdrawn:
            self._refused.append((submission, errors.Withdrawn()))
        elif known is None and fault is not None:
            self._refuse(submission, fault)
        elif known is None:
            accepted = self._accept_group(submission) if submission.members else self._accept(submission)
            if submission.token:
                self._unit.register_token(submission.token, accepted.lk0, submission.digest)
            self._note(submission, accepted)
        elif known.digest == submission.digest:
            self._note(submission, Accepted(known.lk0, known.digest, repeated=True))
        else:
            self._refuse(submission, errors.TokenReused(token=submission.token, lk0=str(known.lk0)))

    def _refuse(self, submission: Submission, error: SemqError) -> None:
        submission.note_refused(error)
        if submission.is_whole:
            raise error
        self._refused.append((submission, error))

    def _note(self, submission: Submission, accepted: Accepted) -> None:
        self._accepted.append((submission, accepted))
        if submission.row_id:
            self._unit.taken_submissions[submission.row_id] = accepted.lk0

    def _accept_group(self, submission: Submission) -> Accepted:
        lk0, count = self._core.new_lk0(), len(submission.members)
        for number, member in enumerate(submission.members, 1):
            member.group = GroupPlace(number, count, str(lk0), str(submission.target))
            self._accept(member)
        return Accepted(lk0, submission.digest, members=count)

    def _accept(self, submission: Submission) -> Accepted:
        destination = self._destinations.get(submission.target) or self._destination(submission.target)
        row = self._new_row(submission, destination)
        if submission.repeats is not None:
            end_repeated(self._core, self._unit, submission.repeats, row)
        goes_as_datagram = submission.attributes.is_best_effort and self._uplink.takes_datagrams(submission.target.node)
        goes_now = goes_as_datagram or destination.takes(row, self._core.settings.window)
        if goes_now:
            row.ss_status, row.att = SendStatus.SS_SENT, 1
        envelope, body = self._sealed(row, self._envelope(row, submission, destination), submission)
        if self._core.spans is not None:
            since = self._at - int((self._core.now() - self._began) * 1000)
            self._core.spans.begin(Side.SENDER, envelope, since)
        self._unit.ledger.append(
            LedgerLine(
                self._at, Side.SENDER, Event.ACCEPTED, envelope.ident, str(row.target), 0, "", row.app_key, row.digest,
                row.size, detail_of_submission(row, submission, envelope),
            )
        )  # fmt: skip
        if goes_now:
            destination.frames.append(Data(envelope, body))
            self._unit.ledger.append(self._core.line(Side.SENDER, Event.SENT, row, destination.remark, self._at))
            self._core.prepare_row_event(self._unit, "sent", row, self._events, self._at)
        elif row.save_fwd is SaveFwd.DROP:
            self._drop(row)
        if self._leaves_a_row(row, goes_now):
            self._unit.insert_outbound(row, Stored(encode_envelope(envelope), bytes(body)))
            if goes_now:
                destination.sent.append(row.object_id)
            elif row.outcome is None:
                destination.waits[row.priority] = destination.waits.get(row.priority, 0) + 1
            else:
                destination.dropped.append(row.object_id)
        elif goes_now:
            self._unkept.append(copy(row))  # a copy, because it is read after the unit
        return Accepted(row.lk0, submission.digest)

    def _sealed(self, row: Outbound, envelope: Envelope, submission: Submission) -> tuple[Envelope, Body]:
        seal = submission.seal
        if seal is None:
            return envelope, submission.body
        if seal.kept is not None and seal not in self._new_seals:
            self._unit.rare_changes.append(seal.kept)
            self._new_seals.append(seal)
        envelope, body = seal.seal(envelope, submission.body, submission.digest)
        row.digest = envelope.digest
        return envelope, body

    def _destination(self, target: Address) -> Destination:
        node = target.node
        destination = self._destinations.get(node)
        if destination is None:
            dest = str(node)
            lane, stream = self._rows.pump.lane(dest), OutStreamKey(dest, self._core.inc)
            floor, pump = self._rows.floor_of(stream), self._rows.pump
            destination = self._destinations[node] = Destination(
                dest, lane, pump.capacity(lane), stream, floor, pump.owner.remark(dest)
            )
        self._destinations[target] = destination
        return destination

    def _new_row(self, submission: Submission, destination: Destination) -> Outbound:
        a = submission.attributes
        lk0 = self._core.new_lk0()
        row = Outbound(
            object_id=lk0.object_id, direction=Direction.OWN, lk0=lk0, target=submission.target, save_fwd=a.save_fwd,
            ack2=a.ack2, order_key=a.order_key, app_key=a.app_key, token=submission.token or None,
            digest=submission.digest, size=len(submission.body), accepted_at=self._at, expires_at=a.expires_at,
            priority=level(a.priority), group=submission.group,
            document="" if submission.target.user == PIECES_USER else a.pieces,
        )  # fmt: skip
        if a.save_fwd is SaveFwd.MUST:
            take_position(self._unit, row, destination.stream)
        return row

    def _envelope(self, row: Outbound, submission: Submission, destination: Destination) -> Envelope:
        return Envelope(
            source=self._core.address,
            target=row.target,
            lk0=row.lk0,
            attributes=submission.attributes,
            sender=submission.sender,
            sid=row.sid,
            floor=destination.floor.value if row.sid >= 0 else 0,
            prev=row.prev,
            att=row.att,
            digest=row.digest,
            submitted_at=row.accepted_at,
        )

    def _drop(self, row: Outbound) -> None:
        """End a document of class 1 that cannot be sent now."""
        row.outcome = Outcome.DROPPED
        self._unit.ledger.append(
            self._core.line(Side.SENDER, Event.DROPPED, row, "the link cannot take it now", self._at)
        )
        self._core.prepare_row_event(self._unit, "failed", row, self._events, self._at)

    @staticmethod
    def _leaves_a_row(row: Outbound, goes_now: bool) -> bool:
        if row.save_fwd is SaveFwd.MUST or row.ack2:
            return True
        return row.save_fwd is SaveFwd.STORE and not goes_now

    def apply(self) -> None:
        for seal in self._new_seals:
            seal.noted()
        for destination in dict.fromkeys(self._destinations.values()):
            self._send_now(destination)
        for row in self._unkept:
            self._rows.remember(row)
        if self._events:
            self._core.events.publish(self._events)
        self._core.count("accepted", sum(max(1, accepted.members) for _, accepted in self._accepted))
        self._core.latency.observe(Stage.STORED, self._core.now() - self._began, len(self._accepted))
        for submission, accepted in self._accepted:
            submission.done(accepted)
        for submission, error in self._refused:
            submission.failed(error)

    def _send_now(self, destination: Destination) -> None:
        rows, pump = self._rows, self._rows.pump
        rows.to_clean += destination.dropped
        rows.unsettled[destination.dest] = (
            rows.unsettled.get(destination.dest, 0) + len(destination.sent) + sum(destination.waits.values())
        )
        for object_id in destination.sent:
            pump.note_sent(destination.lane, object_id)
        pump.send(destination.dest, destination.frames)
        for priority in destination.waits:
            pump.wake_track(destination.dest, "", priority)
