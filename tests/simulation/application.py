"""Simulated applications: they submit documents, and receive documents slowly, late, with failures and repetitions.

If the result of a submission is unknown, the application repeats it with the same token (PROTOCOL.md section 14).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from semq.engine.local_engine import LocalEngine
from semq.engine.ports import Accepted, AppEvent, Delivery, InClear, OpenedPayload, Submission
from semq.errors import BadInput
from semq.seal.errors import SealMalformed
from semq.umx_t.address import Address, parse_address
from semq.umx_t.envelope import Attributes, Body, Data, Envelope
from semq.umx_t.locator import LK0, parse_lk0
from semq.umx_t.pieces import PIECES_USER
from tests.simulation.documents.groups import USERS

if TYPE_CHECKING:
    from tests.simulation.host import LocalHost
    from tests.simulation.world import World

POISON = b"\xff"
# Content types that the hub refuses: REFUSED always, REFUSED_AT_TIMES at random.
REFUSED, REFUSED_AT_TIMES = "refused", "refused at times"


@dataclass(slots=True, frozen=True)
class PlannedDocument:
    """A document to be submitted, and when a person acts on it: seconds from the acceptance; None: never."""

    token: str
    target: str
    attributes: Attributes
    payload: bytes
    cancel_after_s: float | None = None
    resend_after_s: float | None = None  #: if the document is scheduled: until a person releases it
    hold_s: float | None = None  #: how long it is held
    scheduled_s: float = 0.0  #: time from the submission until it may be sent (@NotBefore)


@dataclass(slots=True, frozen=True)
class EventUnderWay:
    """An unpublished event for the sending application."""

    event: AppEvent
    ops: Sequence[Any] = ()


class SimOpener(InClear):
    """Secrecy that cannot open poisoned documents. ``signed``: every statement of an institution counts as signed, so
    that floors are believed only in ReAck2, where the hub cannot change them."""

    def __init__(self, *, signed: bool) -> None:
        self._signed = signed

    def takes_floor(self, source: Address) -> bool:
        return not self._signed

    def check_marker(self, envelope: Envelope) -> bool:
        return self._signed

    def check_origin(self, message: Data) -> bool:
        return self._signed

    def open(self, envelope: Envelope, body: Body) -> OpenedPayload:
        check_poison(body)
        return OpenedPayload(bytes(body), sha256(body).digest())


def check_poison(body: Body) -> None:
    """Raise SealMalformed for a document that its receiver cannot open."""
    if body[:1] == POISON:
        raise SealMalformed("This envelope cannot be opened.")


class SimulatedApplications:
    """All applications of one institution."""

    def __init__(self, world: "World", host: "LocalHost") -> None:
        self.world = world
        self.host = host
        self.capacity = 0
        self._life = 0
        self._attempts: Counter[str] = Counter()  #: submissions of each token
        self._unanswered: set[int] = set()
        self._joined: dict[int, list[int]] = {}  #: pieces of delivered documents, by row of the manifest
        self._users = ("", *USERS) if "groups" in world.plan.kinds else ("",)

    def heal(self) -> None:
        """Consume again, and release all held and scheduled documents."""
        self.be_present(4)
        for delay in (0.0, 30.0, 120.0):  # an earlier hold may be committed later
            self.world.time.after(delay, self._release_all)
        for delay in (150.0, 1000.0):  # a wrong clock may have delayed releases by a day
            self.world.time.after(delay, self._release_scheduled)

    def _release_all(self) -> None:
        for row in list(self.host.tables.outbound.values()):
            if row.held:
                self._hold(row.lk0, False)

    def _release_scheduled(self) -> None:
        for row in list(self.host.tables.submitted.values()):
            if row.not_before:
                self._act_early(parse_lk0(row.lk0), True)

    # --- submitting
    def submit(self, documents: Sequence[PlannedDocument]) -> None:
        """Submit documents; repeat this if there is no answer."""
        submissions = [self._submission(document) for document in documents]
        if not self.host.submit(submissions):
            self.world.time.after(self.world.chance.uniform(0.5, 5.0), self.submit, documents)
            return
        self.world.oracle.submitted(documents)
        for document in documents:
            self._attempts[document.token] += 1
            self._repeat_after(20.0, document)

    def _submission(self, document: PlannedDocument) -> Submission:
        return Submission(
            self._address(document.target),
            document.attributes,
            document.payload,
            partial(self._accepted, document),
            partial(self._failed, document),
            document.token,
            not_before=self._time_of(document),
        )

    def _address(self, target: str) -> Address:
        """Return the address of a target: the name of an institution, or the address of a group."""
        return parse_address(target) if "." in target else self.world.host(target).address

    def _time_of(self, document: PlannedDocument) -> int:
        """Return @NotBefore of a document, in milliseconds since 1970 UTC; 0 if it is not scheduled."""
        if not document.scheduled_s or self.host.engine is None:
            return 0
        now: int = self.host.engine.core.now_ms()
        return now + round(document.scheduled_s * 1000)

    def _repeat_after(self, delay_s: float, document: PlannedDocument) -> None:
        """Plan to repeat a submission, unless it is answered or repeated before."""
        self.world.time.after(delay_s, self._repeat, document, self._attempts[document.token])

    def _repeat(self, document: PlannedDocument, attempt: int) -> None:
        if document.token not in self.world.oracle.answered and attempt == self._attempts[document.token]:
            self.submit([document])

    def _accepted(self, document: PlannedDocument, accepted: Accepted) -> None:
        oracle = self.world.oracle
        if document.token in oracle.answered:
            return
        if accepted.not_before or oracle.schedule.is_name_of_scheduled(accepted.lk0):
            self._note_scheduled(document, accepted.lk0)
            return
        oracle.promised(self.host, document, accepted.lk0)
        for message in oracle.groups.messages(accepted.lk0):
            self._act_later(document, message.lk0)

    def _act_later(self, document: PlannedDocument, lk0: LK0) -> None:
        if document.cancel_after_s is not None:
            self.world.time.after(document.cancel_after_s, self._cancel, lk0)
        if document.resend_after_s is not None:
            self.world.time.after(document.resend_after_s, self._resend, lk0)
        if document.hold_s is not None:
            self._hold(lk0, True)
            self.world.time.after(document.hold_s, self._hold, lk0, False)

    def _note_scheduled(self, document: PlannedDocument, lk0: LK0) -> None:
        self.world.oracle.answered.add(document.token)
        if document.cancel_after_s is not None:
            self.world.time.after(document.cancel_after_s, self._act_early, lk0, False)
        elif document.resend_after_s is not None:
            self.world.time.after(document.resend_after_s, self._act_early, lk0, True)

    def _act_early(self, lk0: LK0, sends: bool) -> None:
        """Let a person release a scheduled document, or withdraw it if not ``sends``."""
        if self.host.engine is None:
            self.world.time.after(1.0, self._act_early, lk0, sends)
            return
        number, doors = lk0.object_id, self.host.doors
        self.world.oracle.schedule.asked.add((self.host.name, number))
        if sends:
            doors.schedule.release(number, _nothing, _ignore)
        else:
            doors.submissions.withdraw(number, "simulated", lambda lk0: None, _ignore)
        self.host.plan_tick()

    def _failed(self, document: PlannedDocument, error: Exception) -> None:
        if isinstance(error, BadInput):
            self.world.oracle.turned_away(document, error)
            return
        self._repeat_after(self.world.chance.uniform(0.1, 5.0), document)

    def act(self, what: str, lk0: LK0) -> None:
        """Cancel a message or have it sent again; ``what`` is ``cancel`` or ``resend``."""
        if what == "cancel":
            self._cancel(lk0)
        else:
            self._resend(lk0)

    def _cancel(self, lk0: LK0) -> None:
        if self.host.engine is None:
            self.world.time.after(1.0, self._cancel, lk0)
            return
        self.world.oracle.cancelling(lk0)
        self.host.call(lambda engine: engine.acts.cancel(lk0, _nothing, _ignore))

    def _resend(self, lk0: LK0) -> None:
        self.host.call(lambda engine: engine.acts.resend(lk0, "simulated", _nothing, _ignore))

    def _hold(self, lk0: LK0, held: bool) -> None:
        if self.host.engine is None:
            self.world.time.after(1.0, self._hold, lk0, held)
            return
        self.host.call(lambda engine: engine.acts.hold(lk0, held, "simulated", _nothing, _ignore))

    # --- events about own documents
    def prepare(self, event: AppEvent) -> EventUnderWay:
        return EventUnderWay(event)

    def publish(self, prepared: Sequence[EventUnderWay]) -> None:
        for under_way in prepared:
            self.world.oracle.reported(self.host, under_way.event)
            self.world.pieces.note_event(under_way.event)

    # --- receiving
    def forget_deliveries(self) -> None:
        """Forget the deliveries under way: the node has ended."""
        self._life += 1
        self._unanswered.clear()
        self._joined.clear()

    def free(self, user: str) -> int:
        return max(self.capacity - len(self._unanswered), 0) if user != PIECES_USER else 0

    def feed(self) -> None:
        if self.capacity:
            for user in self._users:
                self.host.call(partial(_feed, user))

    def report_users(self) -> None:
        """Let the node report the users: none while the application is absent."""
        if present := self._users[1:]:
            self.host.call(lambda engine: engine.note_users(present if self.capacity else ()))

    def be_present(self, capacity: int) -> None:
        """Take up to ``capacity`` documents at a time. 0: stop consuming and return unacknowledged documents."""
        self.capacity = capacity
        if capacity == 0 and self._unanswered:
            lost = sorted(self._unanswered)
            self._unanswered.clear()
            self.host.call(lambda engine: engine.answers.give_back(lost))
        self.report_users()
        self.feed()

    def give(self, user: str, delivery: Delivery) -> None:
        if not self.capacity:  # it has stopped consuming while the delivery was counted
            self.host.call(lambda engine: engine.answers.take_back([delivery.bref]))
            return
        self.world.oracle.given(self.host, delivery)
        if delivery.envelope.attributes.pieces:
            self._joined[delivery.bref] = self.world.pieces.join(self.host, delivery)
        self._unanswered.add(delivery.bref)
        self.world.time.after(self.world.faults.think_s(), self._answer, self._life, delivery)

    def _answer(self, life: int, delivery: Delivery) -> None:
        bref = delivery.bref
        if life != self._life or bref not in self._unanswered:
            return
        self._unanswered.discard(bref)
        answer = self.world.faults.answer(delivery.deliveries)
        self.world.trace("application", self.host.name, (answer, delivery.envelope.ident))
        self._settle(answer, bref)
        if answer != "back" and self.world.faults.stutters():
            self._settle(self.world.chance.choice(("done", "back", "fail", "requeue")), bref)
        if answer == "fail, then requeue":
            self.world.time.after(5.0, self._settle, "requeue", bref)
        self.feed()

    def _settle(self, answer: str, bref: int) -> None:
        pieces = self._joined.pop(bref, ())
        match answer:
            case "done":
                self.host.call(lambda engine: engine.answers.finish([bref, *pieces]))
            case "back":
                self.host.call(lambda engine: engine.answers.give_back([bref]))
            case "requeue":
                self.host.call(lambda engine: engine.answers.requeue([bref]))
            case _:
                self.host.call(lambda engine: engine.answers.fail([bref], "simulated"))


def _feed(user: str, engine: LocalEngine) -> None:
    engine.handover.feed(user)


def _nothing() -> None:
    pass


def _ignore(error: Exception) -> None:
    pass
