"""The scripts for the player, keyed by name.

Every exchange or queue that stays after a script has a name that begins with ``d.``. No script depends on which of
several consumers gets a message, because brokers may choose.
"""

from collections.abc import Iterator

from semq.amqp import methods as m
from semq.amqp.content import Properties
from semq.amqp.wire import Table
from tests.differential.bare import RawBytes, framed, head, message
from tests.differential.player import CloseChannel, HangUp, On, Pause, Publish, Quiet, Script

Q = m.QueueDeclare("d.q")
PASSIVE = m.QueueDeclare("d.q", passive=True)
CONFIRM = m.ConfirmSelect()
QUIET = Quiet()


def to_q(body: bytes, **properties: object) -> Publish:
    """Return a publish to d.q through the default exchange."""
    return Publish("", "d.q", body, Properties(**properties))  # type: ignore[arg-type]


def exchange(kind: str, name: str = "d.x", **arguments: object) -> m.ExchangeDeclare:
    return m.ExchangeDeclare(name, kind, arguments=arguments)  # type: ignore[arg-type]


def queue_with(**arguments: object) -> m.QueueDeclare:
    """Return the declaration of d.q with arguments; underscores become hyphens."""
    return m.QueueDeclare(
        "d.q",
        arguments={f"x-{name.replace('_', '-')}": value for name, value in arguments.items()},  # type: ignore[misc]
    )


def get(no_ack: bool = True, queue: str = "d.q") -> m.BasicGet:
    return m.BasicGet(queue, no_ack=no_ack)


def consume(tag: str = "t", queue: str = "d.q", **settings: object) -> m.BasicConsume:
    return m.BasicConsume(queue, tag, **settings)  # type: ignore[arg-type]


def bind(key: str, exchange: str = "d.x", queue: str = "d.q", **arguments: object) -> m.QueueBind:
    return m.QueueBind(queue, exchange, key, arguments=arguments)  # type: ignore[arg-type]


def matching(name: str, arguments: Table) -> m.QueueBind:
    """Return a binding of the queue ``d.NAME`` to the headers exchange d.x."""
    return m.QueueBind(f"d.{name}", "d.x", "", arguments=arguments)


def bodies(count: int) -> list[Publish]:
    return [to_q(b"%d" % number) for number in range(1, count + 1)]


TOPICS = ["", "a", "a.b", "a.b.c", "b", "a..b", ".", "a.", ".a", "x.b.y", "a.b.c.d"]
PATTERNS = ["#", "*", "a.*", "a.#", "#.b", "*.b.#", "a.#.b", "*.*", "", "#.#", "a.*.c"]
MATCHES: dict[str, Table] = {
    "all": {"x-match": "all", "a": 1, "b": "z"},
    "any": {"x-match": "any", "a": 1, "b": "z"},
    "none": {"a": 1},
    "empty": {},
    "void": {"x-match": "all", "a": None},
    "allx": {"x-match": "all-with-x", "x-a": 1},
    "anyx": {"x-match": "any-with-x", "x-a": 1, "c": 2},
    "anyempty": {"x-match": "any"},
}
HEADERS: list[Table | None] = [
    None, {}, {"a": 1}, {"a": 1, "b": "z"}, {"a": "1"}, {"b": "z"}, {"x-a": 1}, {"a": 1.0}, {"c": 2}, {"a": True},
]  # fmt: skip
EVERYTHING = Properties(
    content_type="t/p", content_encoding="e", headers={"b": True, "i": 5, "s": "ü", "t": {"n": None}, "a": [1, "x"]},
    delivery_mode=2, priority=3, correlation_id="c", reply_to="r", expiration="60000", message_id="m", timestamp=7,
    type="ty", user_id="guest", app_id="ap",
)  # fmt: skip
# All are wrong except the last.
BAD_ARGUMENTS: list[tuple[str, object]] = [
    ("message_ttl", -1), ("expires", 0), ("max_length", -1), ("max_length_bytes", "x"), ("overflow", "explode"),
    ("max_priority", 256), ("dead_letter_exchange", 5), ("dead_letter_routing_key", "k"),
    ("single_active_consumer", 1), ("queue_mode", "strange"), ("queue_type", "strange"), ("max_priority", 5),
]  # fmt: skip

DELETE = m.QueueDelete("d.q")
LONG_TIMES = (2**32 - 1, 2**32, 134_217_728_000, 315_360_000_000, 315_360_000_001)  # milliseconds


def durable(**arguments: object) -> m.QueueDeclare:
    """Return the declaration of d.q as a durable queue."""
    return m.QueueDeclare("d.q", durable=True, arguments=queue_with(**arguments).arguments)


SCRIPTS: dict[str, Script] = {
    # --- definitions
    "times of up to ten years": [
        *(
            step
            for time in LONG_TIMES
            for step in (queue_with(message_ttl=time), DELETE, queue_with(expires=time), DELETE)
        ),
        Q, *(to_q(b"x", expiration=str(time)) for time in LONG_TIMES),
    ],
    "the default queue type": [
        durable(), durable(queue_type="classic"), DELETE, durable(queue_type="classic"), durable(), DELETE,
    ],
    "another queue type": [durable(), durable(queue_type="quorum"), DELETE, durable(queue_type="quorum"), durable()],
    "no delivery limit": [
        durable(queue_type="quorum", delivery_limit=-1), DELETE, durable(queue_type="quorum", delivery_limit=-2),
    ],
    "quorum queues that would not last": [
        *(
            m.QueueDeclare("d.q", **{"durable": True, **flags}, arguments={"x-queue-type": "quorum"})
            for flags in (
                {"durable": False}, {"exclusive": True}, {"auto_delete": True},
                {"durable": False, "exclusive": True, "auto_delete": True}, {"durable": False, "exclusive": True},
            )
        ),
        durable(queue_type="quorum", dead_letter_strategy="exactly-once"),
    ],
    "recover without requeue": [Q, *bodies(1), QUIET, get(False), m.BasicRecover(False), QUIET],
    "queues are declared again": [
        Q, Q, PASSIVE, m.QueueDeclare("d.q", durable=True), m.QueueDeclare("d.q", auto_delete=True),
        m.QueueDeclare("d.q", exclusive=True), queue_with(max_length=5), queue_with(message_ttl=5), PASSIVE,
    ],
    "absent queues": [
        PASSIVE, m.QueueDelete("d.q"), m.QueuePurge("d.q"), get(), consume(), bind("", "amq.direct"),
        m.QueueUnbind("d.q", "amq.direct", ""), m.QueueDeclare("amq.mine"),
            m.QueueDeclare("amq.rabbitmq.reply-to.x", passive=True),
    ],
    "exchanges are declared again": [
        exchange("direct"), exchange("direct"), exchange("fanout"), m.ExchangeDeclare("d.x", "direct", durable=True),
        m.ExchangeDeclare("d.x", "direct", auto_delete=True), m.ExchangeDeclare("d.x", "direct", internal=True),
        exchange("direct", **{"alternate-exchange": "d.y"}), m.ExchangeDeclare("d.x", passive=True),
            m.ExchangeDeclare("d.y", passive=True),
        exchange("nonsense", "d.z"), m.ExchangeDeclare("amq.direct", "direct", durable=True),
            m.ExchangeDeclare("amq.direct", "fanout"),
        m.ExchangeDeclare("amq.mine", "direct"), m.ExchangeDeclare("", "direct"), m.ExchangeDeclare("", passive=True),
    ],
    "exchanges are deleted": [
        m.ExchangeDelete("d.x"), exchange("direct"), Q, bind("k"), m.ExchangeDelete("d.x", if_unused=True),
            m.ExchangeDelete("d.x"),
        m.ExchangeDelete("amq.direct"), m.ExchangeDelete(""), Publish("d.x", "k"), QUIET,
    ],
    "an auto-delete exchange": [
        m.ExchangeDeclare("d.x", "fanout", auto_delete=True), Q, bind(""), m.QueueUnbind("d.q", "d.x", ""),
        m.ExchangeDeclare("d.x", passive=True),
    ],
    "an auto-delete exchange whose queue is deleted": [
        m.ExchangeDeclare("d.x", "fanout", auto_delete=True), Q, bind(""), m.QueueDelete("d.q"),
            m.ExchangeDeclare("d.x", passive=True),
    ],
    "queues are deleted on condition": [
        Q, to_q(b"1"), QUIET, m.QueueDelete("d.q", if_empty=True), consume(), QUIET, m.QueueDelete("d.q",
            if_unused=True),
        m.QueueDelete("d.q"), QUIET, PASSIVE,
    ],
    "generated names": [m.QueueDeclare("", exclusive=True), m.QueueDeclare("", passive=True),
        m.BasicConsume("", ""), m.QueueDelete("")],
    "the name of the last queue": [Q, m.QueueBind("", "amq.topic", "k"), m.QueueBind("", "amq.direct", ""),
        Publish("amq.direct", "d.q", b"here"), QUIET, m.BasicGet("", no_ack=True), m.QueuePurge("")],
    "no name of a last queue": [m.BasicGet(""), m.QueueDelete(""), m.QueuePurge(""), m.BasicConsume(""), m.QueueBind("",
        "amq.topic", "")],
    "an exclusive queue of another connection": [
        m.QueueDeclare("d.q", exclusive=True), On(2, 1, Q), On(2, 1, PASSIVE), On(2, 1, get()), On(2, 1, consume()),
            On(2, 1, m.QueueDelete("d.q")),
        On(2, 1, m.QueuePurge("d.q")), On(2, 1, bind("", "amq.fanout")), On(2, 1, to_q(b"in")), QUIET, get(),
            HangUp(), Pause(0.3), On(2, 1, PASSIVE),
    ],
    "an auto-delete queue": [
        m.QueueDeclare("d.q", auto_delete=True), PASSIVE, consume(), On(1, 2, consume("u")), m.BasicCancel("t"),
            PASSIVE, On(1, 2, m.BasicCancel("u")), PASSIVE,
    ],
    "bindings": [
        exchange("direct"), Q, bind("a"), bind("a"), m.QueueUnbind("d.q", "d.x", "nothing"), bind("b"), Publish("d.x",
            "a"), Publish("d.x", "b"), Publish("d.x", "c"),
        m.QueueUnbind("d.q", "d.x", "a"), Publish("d.x", "a"), QUIET, PASSIVE, m.QueueBind("d.q", "d.none", ""),
            m.QueueUnbind("d.q", "d.none", ""), bind("", ""), m.QueueUnbind("d.q", "", "d.q"),
    ],
    "bindings between exchanges": [
        exchange("fanout"), exchange("topic", "d.y"), Q, m.ExchangeBind("d.y", "d.x", "k"), bind("a.*", "d.y"),
            Publish("d.x", "a.b", b"1"), Publish("d.x", "c", b"2"), QUIET, get(), get(),
        m.ExchangeBind("d.x", "d.y", "#"), Publish("d.x", "a.c", b"3"), QUIET, get(), get(), m.ExchangeUnbind("d.y",
            "d.x", "k"), m.ExchangeUnbind("d.y", "d.x", "k"),
        Publish("d.x", "a.b"), QUIET, get(), m.ExchangeBind("d.none", "d.x", ""), m.ExchangeBind("", "d.x", ""),
            m.ExchangeBind("d.x", "", ""),
    ],
    "invalid arguments": [
        queue_with(**{name: value}) for name, value in BAD_ARGUMENTS
    ],
    "arguments of every kind": [
        queue_with(message_ttl=60_000, expires=60_000, max_length=10, max_length_bytes=1000, overflow="reject-publish",
            max_priority=5, dead_letter_exchange="", dead_letter_routing_key="k"),
        queue_with(message_ttl=60_000), PASSIVE, queue_with(message_ttl=60_000, expires=60_000, max_length=10,
            max_length_bytes=1000, overflow="reject-publish", max_priority=5, dead_letter_exchange="",
            dead_letter_routing_key="k"),
    ],
    "no-wait": [
        m.QueueDeclare("d.q", no_wait=True), m.QueueBind("d.q", "amq.fanout", "", no_wait=True), PASSIVE,
            m.BasicConsume("d.q", "t", no_wait=True), to_q(b"1"), QUIET,
        m.BasicCancel("t", no_wait=True), m.QueuePurge("d.q", no_wait=True), m.QueueDelete("d.q", no_wait=True),
            PASSIVE,
    ],
    # --- routes
    "topics": [exchange("topic"), *(step for key in PATTERNS for step in (m.QueueDeclare(f"d.{key}"), bind(key,
        queue=f"d.{key}"))), *(Publish("d.x", key, key.encode()) for key in TOPICS), QUIET,
        *(step for key in PATTERNS for step in [m.QueueDeclare(f"d.{key}", passive=True),
            *[get(queue=f"d.{key}")] * 3])],
    "headers": [
        exchange("headers"),
        *(
            step
            for name, arguments in MATCHES.items()
            for step in (m.QueueDeclare(f"d.{name}"), matching(name, arguments))
        ),
        *(Publish("d.x", "", b"%d" % number, Properties(headers=given)) for number, given in enumerate(HEADERS)),
        QUIET, *(step for name in MATCHES for step in [get(queue=f"d.{name}")] * len(HEADERS)),
        matching("none", {"x-match": "some"}), matching("nowhere", {}), matching("none", {"x-match": 5}),
    ],
    "fanout and direct": [
        exchange("fanout"), exchange("direct", "d.y"), Q, m.QueueDeclare("d.r"), bind("ignored"), bind("", queue="d.r"),
            bind("", "d.y"), bind("k", "d.y", "d.r"), Publish("d.x", "z", b"1"), Publish("d.y", "", b"2"),
            Publish("d.y", "k", b"3"), QUIET,
        get(), get(), get(), get(queue="d.r"), get(queue="d.r"), get(queue="d.r"),
    ],
    "a message goes once into each queue": [exchange("topic"), Q, bind("#"), bind("a"), bind("*"), Publish("d.x", "a"),
        QUIET, PASSIVE],
    "alternate exchanges": [
        exchange("fanout", "d.a"), exchange("direct", **{"alternate-exchange": "d.a"}), Q, bind("", "d.a"), CONFIRM,
            Publish("d.x", "nowhere", b"1", mandatory=True), QUIET, get(), m.ExchangeDelete("d.a"), Publish("d.x",
            "nowhere", b"2", mandatory=True), QUIET,
    ],
    "internal exchanges": [m.ExchangeDeclare("d.x", "fanout", internal=True), Publish("d.x", ""), QUIET, PASSIVE],
    "CC and BCC": [
        Q, m.QueueDeclare("d.r"), m.QueueDeclare("d.s"), Publish("", "d.q", b"1", Properties(headers={"CC": ["d.r"],
            "BCC": ["d.s"]})), QUIET, get(), get(queue="d.r"), get(queue="d.s"), Publish("", "d.q", b"2",
            Properties(headers={"CC": "d.r"})), QUIET, PASSIVE,
    ],
    # --- content
    "properties are returned unchanged": [Q, Publish("", "d.q", b"body", EVERYTHING), QUIET, get(False),
        m.BasicReject(1, True), QUIET, get()],
    "sizes of bodies": [Q, *(to_q(b"x" * size) for size in (0, 1, 131_064, 131_065, 300_000)), QUIET, *[get()] * 6],
    "returns and confirms": [
        CONFIRM, Q, Publish("", "d.q", b"1", mandatory=True), Publish("", "d.nowhere", b"2", EVERYTHING,
            mandatory=True), Publish("", "d.nowhere", b"3"), Publish("amq.fanout", "k", b"4", mandatory=True),
            QUIET, PASSIVE,
    ],
    "publishing to an absent exchange": [Publish("d.none", "k"), QUIET, PASSIVE, On(1, 2, Q)],
    "immediate": [Q, Publish("", "d.q", immediate=True), QUIET, PASSIVE],
    "a false user-id": [Q, to_q(b"", user_id="somebody"), QUIET, PASSIVE],
    "invalid expirations": [Q, to_q(b"", expiration="soon"), QUIET, PASSIVE, to_q(b"", expiration="-1"),
        QUIET, PASSIVE],
    "gets": [Q, get(False), *bodies(3), QUIET, get(False), get(False), m.BasicAck(1), m.BasicNack(2, requeue=True),
        QUIET, get(False), get(False), get(False), m.BasicAck(0, multiple=True), PASSIVE],
    # --- deliveries
    "a consumer": [Q, *bodies(2), QUIET, consume(), QUIET, to_q(b"3"), QUIET, m.BasicAck(2, multiple=True),
        m.BasicCancel("t"), to_q(b"4"), QUIET, PASSIVE, CloseChannel(), QUIET, PASSIVE, get(), get()],
    "a consumer without acks": [Q, m.BasicQos(prefetch_count=1), consume(no_ack=True), *bodies(3), QUIET,
        m.BasicAck(1), QUIET, PASSIVE],
    "consumer tags": [Q, consume("a"), consume("a"), PASSIVE, m.BasicCancel("none"), consume(""), QUIET],
    "an exclusive consumer": [Q, consume("a", exclusive=True), On(1, 2, consume("b")), On(2, 1, consume("b",
        exclusive=True)), m.BasicCancel("a"), On(1, 2, consume("b")), consume("c", exclusive=True), QUIET],
    "prefetch of a consumer": [Q, m.BasicQos(prefetch_count=2), consume("a"), *bodies(5), QUIET, m.BasicAck(1),
        QUIET, m.BasicAck(3, multiple=True), QUIET, m.BasicQos(prefetch_size=1)],
    "prefetch of a channel": [Q, m.BasicQos(prefetch_count=2, global_=True), consume("a"), *bodies(5), QUIET,
        m.BasicAck(2), QUIET, m.BasicQos(prefetch_count=0, global_=True), QUIET],
    "gets beside a prefetch": [Q, *bodies(4), QUIET, m.BasicQos(prefetch_count=1, global_=True), get(False),
        get(False), consume(), QUIET, m.BasicAck(3), QUIET],
    "requeued to the former place": [Q, *bodies(4), QUIET, get(False), get(False), get(False), m.BasicNack(2,
        requeue=True), QUIET, get(False), m.BasicReject(1, True), m.BasicNack(4, multiple=True, requeue=True),
        QUIET, *[get()] * 5],
    "rejected without requeue": [Q, *bodies(3), QUIET, get(False), get(False), m.BasicReject(1, False), m.BasicNack(2,
        requeue=False), QUIET, PASSIVE, get()],
    "unknown delivery tags": [Q, *bodies(2), QUIET, get(False), m.BasicAck(1), m.BasicAck(1), QUIET, On(1, 1,
        PASSIVE), m.BasicAck(7), QUIET, m.BasicNack(0, multiple=True), QUIET, PASSIVE, m.BasicReject(9), QUIET,
        m.BasicAck(0), QUIET],
    "recover": [Q, *bodies(3), QUIET, get(False), get(False), m.BasicRecover(True), QUIET, get(False), consume(),
        QUIET, m.BasicRecover(True), QUIET],
    "a lost connection with unacknowledged messages": [Q, *bodies(3), QUIET, On(2, 1, consume()), QUIET,
        On(2, 1, m.BasicAck(1)), On(2, 1, HangUp()), Pause(0.3), PASSIVE, get(), get()],
    "priorities of consumers": [Q, m.BasicQos(prefetch_count=1), consume("low", arguments={"x-priority": -1}),
        consume("high", arguments={"x-priority": 5}), *bodies(3), QUIET, m.BasicAck(1), QUIET],
    "single active consumer": [queue_with(single_active_consumer=True), consume("a"), On(1, 2, consume("b")),
        *bodies(2), QUIET, m.BasicCancel("a"), to_q(b"3"), QUIET, consume("c", exclusive=True), QUIET],
    "the queue of a consumer is deleted": [Q, consume("a"), On(2, 1, consume("b")), m.QueueDelete("d.q"), QUIET],
    # --- limits and ends
    "priorities": [queue_with(max_priority=3), *(to_q(b"%d" % number, priority=priority)
        for number, priority in enumerate([0, 3, 1, 9, None, 2, 3])), QUIET, *[get()] * 7],
    "too long": [queue_with(max_length=2), CONFIRM, *bodies(4), QUIET, PASSIVE, get(), get()],
    "too long, refused": [queue_with(max_length=2, overflow="reject-publish"), CONFIRM, *bodies(4), QUIET, PASSIVE,
        get(), to_q(b"5"), QUIET, PASSIVE],
    "too many bytes": [queue_with(max_length_bytes=5), CONFIRM, to_q(b"abc"), to_q(b"de"), to_q(b"f"),
        to_q(b"0123456789"), QUIET, PASSIVE, get()],
    "expired in the queue": [queue_with(message_ttl=100), *bodies(2), Pause(0.4), PASSIVE, get(), to_q(b"3"), QUIET,
        to_q(b"4", expiration="1"), Pause(0.1), PASSIVE],
    "expiration of a message": [Q, to_q(b"1", expiration="100"), to_q(b"2"), Pause(0.4), PASSIVE, get(), get()],
    "ttl zero": [queue_with(message_ttl=0), to_q(b"1"), QUIET, PASSIVE, consume(), to_q(b"2"), QUIET],
    "a queue that expires": [queue_with(expires=200), Pause(0.6), PASSIVE],
    "dead letters": [
        m.ExchangeDeclare("d.dlx", "direct"), m.QueueDeclare("d.dead"), bind("d.q", "d.dlx", "d.dead"),
            queue_with(dead_letter_exchange="d.dlx", max_length=2), *bodies(3), QUIET, get(False), m.BasicReject(1,
            False), QUIET, to_q(b"4", expiration="50"), Pause(0.1),
        get(queue="d.dead"), get(queue="d.dead"), get(), Pause(0.3), get(queue="d.dead"), get(),
    ],
    "dead letters with a routing key": [
        m.QueueDeclare("d.dead"), queue_with(dead_letter_exchange="", dead_letter_routing_key="d.dead"), to_q(b"1",
            headers={"CC": ["d.q"], "k": 1}), QUIET, get(False), m.BasicNack(1, requeue=False), QUIET,
            get(queue="d.dead"), get(),
    ],
    "dead letters in a cycle": [
        queue_with(dead_letter_exchange="", message_ttl=50), to_q(b"1"), Pause(0.5), PASSIVE, m.QueueDelete("d.q"),
        queue_with(dead_letter_exchange="", message_ttl=60_000), to_q(b"2"), get(False), m.BasicReject(1, False), QUIET,
        PASSIVE,
    ],
    "dead letters of a purged and a deleted queue": [m.QueueDeclare("d.dead"), queue_with(dead_letter_exchange="",
        dead_letter_routing_key="d.dead"), *bodies(2), QUIET, m.QueuePurge("d.q"), to_q(b"3"), QUIET,
        m.QueueDelete("d.q"), m.QueueDeclare("d.dead", passive=True)],
    "purged": [Q, *bodies(3), QUIET, get(False), m.QueuePurge("d.q"), m.BasicReject(1, True), QUIET, PASSIVE],
    # --- transactions, confirms, channels
    "a transaction": [m.TxSelect(), Q, *bodies(2), QUIET, PASSIVE, m.TxCommit(), PASSIVE, get(False), m.BasicAck(1),
        m.TxRollback(), PASSIVE, m.BasicNack(1, requeue=True), m.TxCommit(), QUIET, PASSIVE, to_q(b"3"),
        m.TxRollback(), PASSIVE, Publish("d.none", ""), QUIET, PASSIVE],
    "a transaction with returns": [m.TxSelect(), Publish("", "d.nowhere", b"1", mandatory=True), QUIET,
        m.TxCommit(), QUIET],
    "not in a transaction": [m.TxCommit(), m.TxRollback(), CONFIRM, m.TxSelect(), On(1, 2, m.TxSelect()), On(1, 2,
        CONFIRM)],
    "confirms twice": [CONFIRM, CONFIRM, m.ConfirmSelect(no_wait=True), Publish("", "d.nowhere"), QUIET],
    "direct replies": [
        consume("r", "amq.rabbitmq.reply-to", no_ack=True), On(2, 1, Q), to_q(b"ask",
            reply_to="amq.rabbitmq.reply-to", correlation_id="1"), QUIET, On(2, 1, get()), QUIET, On(1, 2,
            consume("r", "amq.rabbitmq.reply-to")), On(1, 2, to_q(b"", reply_to="amq.rabbitmq.reply-to")), QUIET,
        consume("s", "amq.rabbitmq.reply-to", no_ack=True), m.BasicCancel("r"), to_q(b"",
            reply_to="amq.rabbitmq.reply-to"), QUIET, m.QueueDeclare("amq.rabbitmq.reply-to", passive=True),
    ],
    "other channels stay open": [Q, On(1, 2, m.QueueDeclare("d.none", passive=True)), to_q(b"1"), QUIET, PASSIVE,
        On(2, 1, m.ExchangeDeclare("d.y", "nonsense")), PASSIVE],
    "deletion of absent objects": [m.ExchangeUnbind("d.none", "d.gone", "k"), m.ExchangeUnbind("d.none", "amq.direct"),
        m.ExchangeUnbind("amq.direct", "d.none"), m.ExchangeUnbind("amq.direct", "amq.fanout", "k"),
        m.QueueUnbind("d.none", "d.gone", "k"), m.QueueUnbind("d.none", "amq.direct", "k"),
        m.QueueUnbind("d.none", "", "k"), m.ExchangeUnbind("", "d.none"), m.QueueDelete("d.none", True, True),
        m.ExchangeDelete("d.none", True), m.BasicCancel("d.none"), m.QueuePurge("d.none")],
    "frames at their limit": [Q, *(RawBytes(f"body frame of {size}", message(size, size))
        for size in (131_064, 131_065, 131_072, 131_073)), *(RawBytes(f"body frame of {size}, frame-max 4096",
        message(size, size), frame_max=4096) for size in (4088, 4089, 4096, 4097)),
        RawBytes("a head above the limit", message(9) + head(131_073))],
    "numbers of channels": [
        RawBytes("above channel-max", b"".join(framed(m.ChannelOpen(), number) for number in (11, 2048, 65_535)),
            channel_max=10),
        RawBytes("too many", b"".join(framed(m.ChannelOpen(), number) for number in (7, 100, 2, 3)), channel_max=4)],
    "repeated closes": [RawBytes("three times", framed(m.ConnectionClose(200), 0) * 3),
        RawBytes("with others between", framed(m.ConnectionClose(200), 0) + framed(Q)
            + framed(m.ConnectionClose(200), 0))],
    "update of the secret": [RawBytes("by another secret",
        framed(m.ConnectionUpdateSecret(b"another", "expired"), 0) + framed(Q)), Q],
    "flow and asynchronous recover": [m.ChannelFlow(True), m.BasicRecoverAsync(True), QUIET],
}  # fmt: skip


def removals_for(script: Script) -> Iterator[m.Method]:
    """Return steps that remove all objects named ``d.…`` that a script may have created."""
    for item in script:
        step = item.step if isinstance(item, On) else item
        if isinstance(step, m.QueueDeclare) and step.queue.startswith("d."):
            yield m.QueueDelete(step.queue)
        elif isinstance(step, m.ExchangeDeclare) and step.exchange.startswith("d."):
            yield m.ExchangeDelete(step.exchange)
