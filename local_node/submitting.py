"""Exchange ``semq``: an application publishes a document.

And its confirm means that the document is committed in tb_0031.

Routing key is the target's address, UMX-T attributes are headers. What is published in one turn is committed together.
A document that cannot be accepted ends the channel with the reply code that fits, the SEMQ code and what to do.
"""

from collections.abc import Callable

from semq.amqp import errors as amqp
from semq.amqp.content import ContentHeader
from semq.broker.services import CONFIRMED, NACKED, Outcome, Refused, ServiceExchange, SessionInfo, Settle
from semq.engine import errors
from semq.engine.local import LocalEngine
from semq.engine.ports import Submission
from semq.errors import BadInput, SemqError
from semq.transport.turn import Turn
from semq.umx_t.address import parse_address
from semq.umx_t.headers import read_submission

SEMQ = "semq"

# Which reply code an application hears; everything else is 406.
REPLY: dict[type[SemqError], type[amqp.AmqpError]] = {
    errors.UnknownTarget: amqp.NotFound,
    errors.TargetNotAllowed: amqp.AccessRefused,
    errors.DocumentTooLarge: amqp.ContentTooLarge,
}


class SubmitExchange(ServiceExchange):
    """The door for documents, in any language that speaks AMQP."""

    __slots__ = ("_engine", "_turn", "_waiting")

    def __init__(self, engine: Callable[[], LocalEngine], turn: Turn) -> None:
        super().__init__(SEMQ, "x-semq")
        self._engine = engine
        self._turn = turn
        self._waiting: list[Submission] = []

    def publish(
        self,
        session: SessionInfo,
        routing_key: str,
        header: ContentHeader,
        body: bytes,
        mandatory: bool,
        settle: Settle,
    ) -> None:
        """Take one document; the confirm follows its commit."""
        try:
            submission = self._read(routing_key, header, body, settle)
        except SemqError as error:
            if isinstance(error, amqp.AmqpError):
                raise
            settle(refusal(error))
            return
        if not self._waiting:
            self._turn.before_flush(self._submit)
        self._waiting.append(submission)

    def _read(self, routing_key: str, header: ContentHeader, body: bytes, settle: Settle) -> Submission:
        properties = {
            "content_type": header.content_type,
            "content_encoding": header.content_encoding,
            "priority": header.priority,
        }
        attributes, token = read_submission(header.headers or {}, properties)
        return Submission(
            target=parse_address(routing_key),
            attributes=attributes,
            body=body,
            done=lambda accepted: settle(CONFIRMED),
            failed=lambda error: settle(refusal(error)),
            token=token,
        )

    def _submit(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._engine().submit(waiting)


def refusal(error: Exception) -> Outcome:
    """What an application hears: bad input ends its channel, anything else is a nack and may be repeated."""
    if not isinstance(error, BadInput):
        return NACKED
    kind = REPLY.get(type(error), amqp.PreconditionFailed)
    return Refused(kind(error.advice()[:250]))
