"""The methods of AMQP 0-9-1 and RabbitMQ's extensions as value classes, one per row of ``spec.GRID``.

Each class takes its row by its own name (``QueueDeclareOk`` is ``queue.declare-ok``) and refuses at import to
differ from it in the names or the order of its arguments. ``codec`` turns them into octets and back. Publish,
deliver, ack, nack and reject are here for completeness and tests; on the hot path ``hot`` reads and writes them
without making these objects.
"""

from types import MappingProxyType
from typing import Any, ClassVar

from semq.amqp.record import Record
from semq.amqp.spec import PROTOCOL_HEADER, ROWS, Row
from semq.amqp.wire import Table

NO_TABLE: Table = MappingProxyType({})


def _row_of(class_name: str) -> Row:
    """QueueDeclareOk -> the row queue.declare-ok."""
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in class_name).split()
    return ROWS[f"{words[0]}.{'-'.join(words[1:])}"]


class Method(Record):
    """A method; ``row`` is its line in the table of the specification."""

    row: ClassVar[Row]
    ids: ClassVar[tuple[int, int]]  # class and method

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.row = _row_of(cls.__name__)
        named = tuple(argument.name for argument in cls.row.arguments if argument.name)
        if named != cls.names:
            raise TypeError(f"{cls.row.name} has the arguments {named}, its class says {cls.names}")
        cls.ids = cls.row.class_id, cls.row.method_id
        METHODS[cls.ids] = cls


METHODS: dict[tuple[int, int], type[Method]] = {}


class ConnectionStart(Method):
    """Server: these are the mechanisms and the properties that I offer."""

    version_major: int = PROTOCOL_HEADER[5]
    version_minor: int = PROTOCOL_HEADER[6]
    server_properties: Table = NO_TABLE
    mechanisms: bytes = b"PLAIN"
    locales: bytes = b"en_US"


class ConnectionStartOk(Method):
    """Client: this is me, by this mechanism."""

    client_properties: Table = NO_TABLE
    mechanism: str = "PLAIN"
    response: bytes = b""
    locale: str = "en_US"


class ConnectionSecure(Method):
    """Server: one more challenge of the mechanism."""

    challenge: bytes = b""


class ConnectionSecureOk(Method):
    """Client: the answer to the challenge."""

    response: bytes = b""


class ConnectionTune(Method):
    """Server: my limits. 0 means no limit, or no heartbeat; heartbeat is in seconds."""

    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


class ConnectionTuneOk(Method):
    """Client: the limits that hold."""

    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


class ConnectionOpen(Method):
    """Client: I want to work in this virtual host."""

    virtual_host: str = "/"


class ConnectionOpenOk(Method):
    """Server: do."""


class ConnectionClose(Method):
    """Either side: the connection ends; code and text say why, the ids name the method that caused it."""

    reply_code: int = 200
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


class ConnectionCloseOk(Method):
    """Either side: the close has been heard."""


class ConnectionBlocked(Method):
    """Server: I am short of a resource, publishing is not read for now. RabbitMQ's extension."""

    reason: str = ""


class ConnectionUnblocked(Method):
    """Server: publishing is read again."""


class ConnectionUpdateSecret(Method):
    """Client: here is a fresh credential. RabbitMQ's extension."""

    new_secret: bytes = b""
    reason: str = ""


class ConnectionUpdateSecretOk(Method):
    """Server: the fresh credential is accepted."""


class ChannelOpen(Method):
    """Client: open this channel."""


class ChannelOpenOk(Method):
    """Server: the channel is open."""


class ChannelFlow(Method):
    """Either side: stop (false) or go on (true) sending content on this channel."""

    active: bool = True


class ChannelFlowOk(Method):
    """Either side: this is how I handle the flow from here on."""

    active: bool = True


class ChannelClose(Method):
    """Either side: the channel ends; code and text say why."""

    reply_code: int = 200
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


class ChannelCloseOk(Method):
    """Either side: the close has been heard; the number is free again."""


class ExchangeDeclare(Method):
    """Client: create an exchange, or check that it exists."""

    exchange: str = ""
    type: str = "direct"
    passive: bool = False
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    no_wait: bool = False
    arguments: Table = NO_TABLE


class ExchangeDeclareOk(Method):
    """Server: the exchange exists."""


class ExchangeDelete(Method):
    """Client: delete an exchange."""

    exchange: str = ""
    if_unused: bool = False
    no_wait: bool = False


class ExchangeDeleteOk(Method):
    """Server: the exchange is gone."""


class ExchangeBind(Method):
    """Client: let messages flow from one exchange to another. RabbitMQ's extension."""

    destination: str = ""
    source: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = NO_TABLE


class ExchangeBindOk(Method):
    """Server: bound."""


class ExchangeUnbind(Method):
    """Client: undo exchange.bind. RabbitMQ's extension."""

    destination: str = ""
    source: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = NO_TABLE


class ExchangeUnbindOk(Method):
    """Server: unbound."""


class QueueDeclare(Method):
    """Client: create a queue, or check that it exists; an empty name asks the server for one."""

    queue: str = ""
    passive: bool = False
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    no_wait: bool = False
    arguments: Table = NO_TABLE


class QueueDeclareOk(Method):
    """Server: the queue exists; messages that are ready, and consumers."""

    queue: str = ""
    message_count: int = 0
    consumer_count: int = 0


class QueueBind(Method):
    """Client: let messages flow from an exchange into a queue."""

    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = NO_TABLE


class QueueBindOk(Method):
    """Server: bound."""


class QueuePurge(Method):
    """Client: remove the messages that wait for no acknowledgement."""

    queue: str = ""
    no_wait: bool = False


class QueuePurgeOk(Method):
    """Server: so many were removed."""

    message_count: int = 0


class QueueDelete(Method):
    """Client: delete a queue."""

    queue: str = ""
    if_unused: bool = False
    if_empty: bool = False
    no_wait: bool = False


class QueueDeleteOk(Method):
    """Server: the queue is gone, with so many messages."""

    message_count: int = 0


class QueueUnbind(Method):
    """Client: undo queue.bind. The specification gives it no no-wait."""

    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    arguments: Table = NO_TABLE


class QueueUnbindOk(Method):
    """Server: unbound."""


class BasicQos(Method):
    """Client: deliver at most so much before it is acknowledged. ``global_``: per channel instead of per consumer."""

    prefetch_size: int = 0
    prefetch_count: int = 0
    global_: bool = False


class BasicQosOk(Method):
    """Server: noted."""


class BasicConsume(Method):
    """Client: start a consumer; an empty tag asks the server for one."""

    queue: str = ""
    consumer_tag: str = ""
    no_local: bool = False
    no_ack: bool = False
    exclusive: bool = False
    no_wait: bool = False
    arguments: Table = NO_TABLE


class BasicConsumeOk(Method):
    """Server: the consumer has this tag."""

    consumer_tag: str = ""


class BasicCancel(Method):
    """Client: end a consumer. From the server: the consumer has ended (RabbitMQ's extension)."""

    consumer_tag: str = ""
    no_wait: bool = False


class BasicCancelOk(Method):
    """The consumer has ended."""

    consumer_tag: str = ""


class BasicPublish(Method):
    """Client: a message for an exchange; content follows."""

    exchange: str = ""
    routing_key: str = ""
    mandatory: bool = False
    immediate: bool = False


class BasicReturn(Method):
    """Server: this mandatory or immediate message cannot be routed or delivered; content follows."""

    reply_code: int = 312
    reply_text: str = "NO_ROUTE"
    exchange: str = ""
    routing_key: str = ""


class BasicDeliver(Method):
    """Server: a message for a consumer; content follows."""

    consumer_tag: str = ""
    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""


class BasicGet(Method):
    """Client: one message, if there is one."""

    queue: str = ""
    no_ack: bool = False


class BasicGetOk(Method):
    """Server: here it is, and so many are left; content follows."""

    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""
    message_count: int = 0


class BasicGetEmpty(Method):
    """Server: there is none."""


class BasicAck(Method):
    """Client: received. Server: committed (publisher confirm)."""

    delivery_tag: int = 0
    multiple: bool = False


class BasicReject(Method):
    """Client: I do not take this message."""

    delivery_tag: int = 0
    requeue: bool = True


class BasicRecoverAsync(Method):
    """Client: deliver again what is not acknowledged. Deprecated by the specification."""

    requeue: bool = False


class BasicRecover(Method):
    """Client: deliver again what is not acknowledged."""

    requeue: bool = False


class BasicRecoverOk(Method):
    """Server: done."""


class BasicNack(Method):
    """Client: I do not take these messages. Server: a publish failed. RabbitMQ's extension."""

    delivery_tag: int = 0
    multiple: bool = False
    requeue: bool = True


class ConfirmSelect(Method):
    """Client: confirm what I publish on this channel. RabbitMQ's extension."""

    no_wait: bool = False


class ConfirmSelectOk(Method):
    """Server: from now on."""


class TxSelect(Method):
    """Client: this channel works in transactions."""


class TxSelectOk(Method):
    """Server: noted."""


class TxCommit(Method):
    """Client: commit."""


class TxCommitOk(Method):
    """Server: committed."""


class TxRollback(Method):
    """Client: forget what came since the last commit."""


class TxRollbackOk(Method):
    """Server: forgotten."""
