"""Exchange ``semq``: applications publish documents. A confirm means that the document is committed.

The routing key is the target's address; UMX-T attributes are headers. Bad input closes the channel, with the SEMQ code
and the remedy; documents behind it are not accepted. A temporarily refused one is nacked after a delay (``nacks``).
With ``reply_to`` the result is published there, too, in the format of ``semq.admin``; an error of SEMQ then nacks the
document and leaves the channel open.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from local_node.doors.nacks import NackDelays, NackedDocument, Nacks
from local_node.doors.properties import expires_at, given_headers, with_delay
from local_node.pieces.upload import Upload, Uploads
from semq.amqp import errors as amqp
from semq.amqp.content import ContentHeader
from semq.broker.refusals import IN_PIECES, no_transaction
from semq.broker.services import (
    CONFIRMED,
    NACKED,
    OfferedMessage,
    Outcome,
    Refused,
    ServiceExchange,
    ServiceNacked,
    SessionInfo,
)
from semq.broker.vhost import VirtualHost
from semq.engine import errors
from semq.engine.frames import check_size, document_properties
from semq.engine.local_engine import LocalEngine
from semq.engine.ports import Accepted, Submission
from semq.engine.sender.groups import is_group
from semq.errors import BadInput, SemqError, semq_error
from semq.foreign_text import shortened
from semq.service.admin import answer, describe
from semq.service.engine_handle import EngineHandle
from semq.store.postgres.errors import RowRefused
from semq.transport.turn import Turn
from semq.umx_t.address import parse_address
from semq.umx_t.app_key import NO_KEY
from semq.umx_t.headers import read_submission
from semq.umx_t.status import SaveFwd

SEMQ = "semq"
TEXT_MAX = 255 - len("PRECONDITION_FAILED - ")  # bytes of a reply text after the name of the code
NAME_MAX = 26  # characters of a token, AppKey or target in a reply text

# Error | reply code; others have 406.
REPLY: dict[type[SemqError], type[amqp.AmqpError]] = {
    errors.UnknownTarget: amqp.NotFound,
    errors.TargetNotAllowed: amqp.AccessRefused,
    errors.DocumentTooLarge: amqp.ContentTooLarge,
}


class Sizes(NamedTuple):
    """Sizes of documents, in bytes."""

    message_max: int  #: of a document in one message
    pieces_from: int  #: larger documents are sent in pieces if ``is_for_pieces``
    document_max: int  #: of a document in pieces


def is_for_pieces(submission: Submission) -> bool:
    """Return whether a document may be sent in pieces."""
    attributes = submission.attributes
    return attributes.save_fwd is SaveFwd.MUST and not (
        attributes.order_key or attributes.fixed or submission.not_before or is_group(submission.target)
    )


class SubmitExchange(ServiceExchange):
    """Exchange ``semq``."""

    streams = True
    transacts = True
    __slots__ = ("_delays", "_engine", "_nacks", "_sizes", "_turn", "_uploads", "_vhost", "_waiting")

    def __init__(
        self, vhost: VirtualHost, engine: EngineHandle[LocalEngine], turn: Turn, sizes: Sizes, uploads: Uploads
    ) -> None:
        super().__init__(SEMQ, "x-semq", sizes.document_max)
        self._sizes = sizes
        self._uploads = uploads
        self._vhost = vhost
        self._engine = engine
        self._turn = turn
        self._waiting: list[Submission] = []
        env = vhost.env
        self._nacks = Nacks(engine, env.timers, env.clock.monotonic)
        self._delays = NackDelays(env.timers, env.clock.monotonic)

    def arriving(
        self, session: SessionInfo, routing_key: str, header: ContentHeader, pause: Callable[[bool], None]
    ) -> Upload | None:
        """Return the upload of a document in pieces, or None for a document in one message.

        Raises AmqpError for bad input, unless an answer was requested (``reply_to``). Other faults are reported after
        the body, which the upload drops.
        """
        size = header.body_size
        fault: SemqError | None = None
        try:
            submission = self._read(routing_key, header, b"")
            if size <= self._sizes.message_max and not (size > self._sizes.pieces_from and is_for_pieces(submission)):
                return None
            self._engine.current.acceptance.check_in_pieces(submission, size)
        except SemqError as error:
            outcome = refusal(error, f"document to {routing_key:.40}")
            if not header.reply_to and isinstance(outcome, Refused):
                raise error if isinstance(error, amqp.AmqpError) else outcome.error from error
            fault = error
        return self._uploads.begin(size, pause, fault)

    def publish(self, message: OfferedMessage) -> None:
        upload = message.document if isinstance(message.document, Upload) else None
        settlement = self._settlement(message)
        try:
            submission = self._submission(message, settlement)
        except SemqError as error:
            if isinstance(error, amqp.AmqpError):
                raise
            settlement.failed(error)
            return
        submission.order, submission.place = message.publications, message.number
        submission.closes_order = not message.header.reply_to
        if upload is None and self._is_for_pieces(message, submission):
            upload = self._uploads.begin(len(message.body), lambda is_paused: None)
            upload.add(message.body)
        if upload is not None:
            settlement.digest = upload.digest
            upload.finish(submission)
            return
        if not self._waiting:
            self._turn.before_flush(self._submit)
        self._waiting.append(submission)

    def publish_whole(self, messages: Sequence[OfferedMessage]) -> None:
        """Submit the documents of one transaction. Raises AmqpError if one of them is refused."""
        try:
            submissions = [self._submission(message, self._settlement(message)) for message in messages]
            for message, submission in zip(messages, submissions, strict=True):
                submission.is_whole = True
                if self._is_for_pieces(message, submission):
                    raise no_transaction(IN_PIECES)
            self._engine.current.submit(submissions)
        except amqp.AmqpError:
            raise
        except SemqError as error:
            raise closing(error, "a document of the transaction") from error

    def _settlement(self, message: OfferedMessage) -> "_ReportByConfirm":
        if message.header.reply_to:
            return _ReportByAnswer(self._vhost, message, self._delays)
        return _ReportByConfirm(message, self._delays, self._nacks)

    def _submission(self, message: OfferedMessage, settlement: "_ReportByConfirm") -> Submission:
        submission = self._read(message.routing_key, message.header, message.body)
        # ``settlement`` must not refer to the submission: this cycle would keep the body in memory.
        settlement.document = NackedDocument(submission.target, submission.attributes.app_key, submission.token)
        submission.done = settlement.done
        submission.failed = settlement.failed
        return submission

    def _is_for_pieces(self, message: OfferedMessage, submission: Submission) -> bool:
        return len(message.body) > self._sizes.pieces_from and is_for_pieces(submission)

    def _read(self, routing_key: str, header: ContentHeader, body: bytes) -> Submission:
        headers, fields = given_headers(header)
        if (
            header.expiration is not None
            and (expiry := expires_at(header, headers, self._engine.current.core.now_ms())) is not None
        ):
            headers = headers | {"@ExpiresAt": expiry}
        headers = with_delay(headers, fields, self._engine.current.core.now_ms)
        attributes, requests = read_submission(headers, document_properties(header), check_size(fields))
        return Submission(
            target=parse_address(routing_key),
            attributes=attributes,
            body=body,
            done=lambda accepted: None,
            failed=lambda error: None,
            token=requests.token,
            not_before=requests.not_before,
        )

    def _submit(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._engine.current.submit(waiting)


class _ReportByConfirm:
    """Reports the result by confirm, nack, or channel.close."""

    document: NackedDocument | None = None
    digest: bytes | None = None  #: of a document in pieces; else None

    def __init__(self, message: OfferedMessage, delays: NackDelays, nacks: Nacks | None = None) -> None:
        self._settle = message.settle
        self._user = message.session.user
        self._publications, self._place = message.publications, message.number
        self._number = message.publications.delivery_number(message.number) if message.publications is not None else 0
        self._routing_key = message.routing_key
        self._delays = delays
        self._nacks = nacks

    def done(self, accepted: Accepted) -> None:
        if self.document is not None:
            self._delays.note_accepted(self._user, self.document.target.node)
        self._settle(CONFIRMED)

    def failed(self, error: Exception) -> None:
        """Report an error: the document was not committed, or the outcome is unknown."""
        if self.document is None or isinstance(error, (BadInput, errors.Withdrawn, errors.Stopping)):
            self._report(error)
        else:
            report: Callable[[], None] = partial(self._report, error)
            if self._publications is not None:
                report = self._publications.delay(self._place, report)
            self._delays.delay(self._user, self.document.target.node, report)

    def _report(self, error: Exception) -> None:
        outcome = refusal(error, self._name())
        self._settle(outcome)
        is_noted = isinstance(outcome, ServiceNacked) and not isinstance(error, errors.Withdrawn)
        if is_noted and self._nacks is not None and self.document is not None:
            self._nacks.note(self.document, error)

    def _name(self) -> str:
        """Return a name by which the publisher recognizes the document, short enough for every remedy."""
        number = f"document {self._number}" if self._number > 0 else "document"
        if self.document is not None and self.document.token:
            return f"{number}, @Token {shortened(self.document.token, NAME_MAX)}"
        if self.document is not None and self.document.app_key != NO_KEY:
            return f"{number}, @AppKey {shortened(str(self.document.app_key), NAME_MAX)}"
        return f"{number} to {shortened(self._routing_key, NAME_MAX)}"


class _ReportByAnswer(_ReportByConfirm):
    """Reports the result to ``reply_to`` and by confirm or nack."""

    def __init__(self, vhost: VirtualHost, message: OfferedMessage, delays: NackDelays) -> None:
        super().__init__(message, delays)
        self._vhost = vhost
        self._header = message.header

    def done(self, accepted: Accepted) -> None:
        result: dict[str, object] = {
            "lk0": str(accepted.lk0),
            "repeated": accepted.repeated,
            "digest": (self.digest or accepted.digest).hex(),
        }
        if accepted.members:
            result["members"] = accepted.members
        if accepted.not_before and self.digest is None:
            result["not_before"] = accepted.not_before
        answer(self._vhost, self._header, {"ok": True, "result": result})
        super().done(accepted)

    def _report(self, error: Exception) -> None:
        reported = semq_error(error)
        answer(self._vhost, self._header, {"ok": False, "error": describe(reported)})
        self._settle(NACKED)


def reply_text(error: SemqError, name: str) -> str:
    """Return the reply text of channel.close: the name of the document, the code, and as much of the rest as has room.
    The remedy is more important than the facts and the text, which the code can be looked up for; but nothing can be
    looked up for the words of Postgres.
    """
    if isinstance(error, RowRefused):
        return shortened(f"{name}: {error}", TEXT_MAX)
    texts = (error.advice(), f"{error.code} {error.text} — {error.remedy}", f"{error.code} — {error.remedy}")
    named = [f"{name}: {text}" for text in texts]
    return next((text for text in named if len(text.encode()) <= TEXT_MAX), named[-1])


def refusal(error: Exception, name: str) -> Outcome:
    """Return the settlement for an error: bad input closes the channel, other errors nack the document.

    On a channel without confirms, other errors close the channel, too. ``name``: of the document, for the reply text.
    """
    reply = closing(semq_error(error), name)
    return Refused(reply) if isinstance(error, BadInput) else ServiceNacked(reply)


def closing(error: SemqError, name: str) -> amqp.AmqpError:
    """Return the error that closes the channel."""
    return REPLY.get(type(error), amqp.PreconditionFailed)(reply_text(error, name))
