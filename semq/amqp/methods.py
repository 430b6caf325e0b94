"""The methods of AMQP 0-9-1 and RabbitMQ's extensions as value classes, one per row of ``spec.GRID``.

Each class finds its row by its own name (``QueueDeclareOk`` is ``queue.declare-ok``) and fails at import if the names
or the order of its arguments differ from the row.
"""

from types import MappingProxyType
from typing import ClassVar

from msgspec import Struct

from semq.amqp.spec import PROTOCOL_HEADER, ROWS, MethodRow
from semq.amqp.wire import Table

NO_TABLE: Table = MappingProxyType({})


def _row_of(class_name: str) -> MethodRow:
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in class_name).split()
    return ROWS[f"{words[0]}.{'-'.join(words[1:])}"]


class Method(Struct):
    """A method; ``row`` is its row in the table of the specification."""

    row: ClassVar[MethodRow]
    ids: ClassVar[tuple[int, int]]  # class and method


class ConnectionStart(Method):
    """Server: offer mechanisms and properties."""

    version_major: int = PROTOCOL_HEADER[5]
    version_minor: int = PROTOCOL_HEADER[6]
    server_properties: Table = NO_TABLE
    mechanisms: bytes = b"PLAIN"
    locales: bytes = b"en_US"


class ConnectionStartOk(Method):
    """Client: log in with a mechanism."""

    client_properties: Table = NO_TABLE
    mechanism: str = "PLAIN"
    response: bytes = b""
    locale: str = "en_US"


class ConnectionSecure(Method):
    """Server: send a challenge of the mechanism."""

    challenge: bytes = b""


class ConnectionSecureOk(Method):
    """Client: answer the challenge."""

    response: bytes = b""


class ConnectionTune(Method):
    """Server: propose limits. 0 means no limit, or no heartbeat; heartbeat is in seconds."""

    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


class ConnectionTuneOk(Method):
    """Client: set the limits."""

    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


class ConnectionOpen(Method):
    """Client: select this virtual host."""

    virtual_host: str = "/"


class ConnectionOpenOk(Method):
    """Server: accept connection.open."""


class ConnectionClose(Method):
    """Either side: close the connection; the ids name the method at fault."""

    reply_code: int = 200
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


class ConnectionCloseOk(Method):
    """Either side: confirm the close."""


class ConnectionBlocked(Method):
    """Server: publishes are not read for now, for lack of resources. RabbitMQ's extension."""

    reason: str = ""


class ConnectionUnblocked(Method):
    """Server: publishes are read again."""


class ConnectionUpdateSecret(Method):
    """Client: present a new credential. RabbitMQ's extension."""

    new_secret: bytes = b""
    reason: str = ""


class ConnectionUpdateSecretOk(Method):
    """Server: accept the new credential."""


class ChannelOpen(Method):
    """Client: open this channel."""


class ChannelOpenOk(Method):
    """Server: the channel is open."""


class ChannelFlow(Method):
    """Either side: stop (false) or resume (true) sending content on this channel."""

    active: bool = True


class ChannelFlowOk(Method):
    """Either side: confirm the flow."""

    active: bool = True


class ChannelClose(Method):
    """Either side: close the channel."""

    reply_code: int = 200
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


class ChannelCloseOk(Method):
    """Either side: confirm the close; the number is free again."""


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
    """Server: the exchange is deleted."""


class ExchangeBind(Method):
    """Client: route messages from one exchange to another. RabbitMQ's extension."""

    destination: str = ""
    source: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = NO_TABLE


class ExchangeBindOk(Method):
    """Server: the binding exists."""


class ExchangeUnbind(Method):
    """Client: undo exchange.bind. RabbitMQ's extension."""

    destination: str = ""
    source: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = NO_TABLE


class ExchangeUnbindOk(Method):
    """Server: the binding is removed."""


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
    """Server: the queue exists. ``message_count``: ready messages."""

    queue: str = ""
    message_count: int = 0
    consumer_count: int = 0


class QueueBind(Method):
    """Client: route messages from an exchange to a queue."""

    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = NO_TABLE


class QueueBindOk(Method):
    """Server: the binding exists."""


class QueuePurge(Method):
    """Client: remove the messages that are not awaiting acknowledgement."""

    queue: str = ""
    no_wait: bool = False


class QueuePurgeOk(Method):
    """Server: the number of messages removed."""

    message_count: int = 0


class QueueDelete(Method):
    """Client: delete a queue."""

    queue: str = ""
    if_unused: bool = False
    if_empty: bool = False
    no_wait: bool = False


class QueueDeleteOk(Method):
    """Server: the queue is deleted, with these messages."""

    message_count: int = 0


class QueueUnbind(Method):
    """Client: undo queue.bind. The specification defines no no-wait for this method."""

    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    arguments: Table = NO_TABLE


class QueueUnbindOk(Method):
    """Server: the binding is removed."""


class BasicQos(Method):
    """Client: limit unacknowledged deliveries per consumer, or per channel (``global_``)."""

    prefetch_size: int = 0
    prefetch_count: int = 0
    global_: bool = False


class BasicQosOk(Method):
    """Server: the limit is set."""


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
    """Server: the consumer is started."""

    consumer_tag: str = ""


class BasicCancel(Method):
    """Client: end a consumer. From the server: the consumer has ended (RabbitMQ's extension)."""

    consumer_tag: str = ""
    no_wait: bool = False


class BasicCancelOk(Method):
    """Either side: the consumer has ended."""

    consumer_tag: str = ""


class BasicPublish(Method):
    """Client: publish a message to an exchange; content follows."""

    exchange: str = ""
    routing_key: str = ""
    mandatory: bool = False
    immediate: bool = False


class BasicReturn(Method):
    """Server: return a mandatory or immediate message; content follows."""

    reply_code: int = 312
    reply_text: str = "NO_ROUTE"
    exchange: str = ""
    routing_key: str = ""


class BasicDeliver(Method):
    """Server: deliver a message to a consumer; content follows."""

    consumer_tag: str = ""
    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""


class BasicGet(Method):
    """Client: request one message."""

    queue: str = ""
    no_ack: bool = False


class BasicGetOk(Method):
    """Server: deliver the requested message. ``message_count``: messages left in the queue. Content follows."""

    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""
    message_count: int = 0


class BasicGetEmpty(Method):
    """Server: the queue is empty."""


class BasicAck(Method):
    """Client: acknowledge deliveries. Server: confirm publishes (publisher confirm)."""

    delivery_tag: int = 0
    multiple: bool = False


class BasicReject(Method):
    """Client: reject a message."""

    delivery_tag: int = 0
    requeue: bool = True


class BasicRecoverAsync(Method):
    """Client: request redelivery of unacknowledged messages. Deprecated by the specification."""

    requeue: bool = False


class BasicRecover(Method):
    """Client: request redelivery of unacknowledged messages."""

    requeue: bool = False


class BasicRecoverOk(Method):
    """Server: redelivery is arranged."""


class BasicNack(Method):
    """Client: reject one or more messages. Server: a publish failed. RabbitMQ's extension."""

    delivery_tag: int = 0
    multiple: bool = False
    requeue: bool = True


class ConfirmSelect(Method):
    """Client: request confirms for publishes on this channel. RabbitMQ's extension."""

    no_wait: bool = False


class ConfirmSelectOk(Method):
    """Server: publishes are confirmed from now on."""


class TxSelect(Method):
    """Client: use transactions on this channel."""


class TxSelectOk(Method):
    """Server: the channel is transactional."""


class TxCommit(Method):
    """Client: commit the transaction."""


class TxCommitOk(Method):
    """Server: the transaction is committed."""


class TxRollback(Method):
    """Client: roll back the transaction."""


class TxRollbackOk(Method):
    """Server: the transaction is rolled back."""


def registered(method: type[Method]) -> type[Method]:
    """Give a class its row. Raises KeyError or TypeError if there is none, or one with other arguments."""
    method.row = _row_of(method.__name__)
    arguments = tuple(argument.name for argument in method.row.arguments if argument.name)
    if arguments != method.__struct_fields__:
        raise TypeError(f"{method.row.name} has the arguments {arguments}, its class has {method.__struct_fields__}")
    method.ids = method.row.class_id, method.row.method_id
    return method


METHODS: dict[tuple[int, int], type[Method]] = {
    method.ids: method for method in map(registered, Method.__subclasses__())
}
