"""Random scripts: definitions, publishes, gets and settlements over few names, so that they interact often.

They have no consumers, because brokers may choose which of several gets a message. Module ``scripts`` has scripts with
consumers.
"""

from random import Random
from typing import Any

from semq.amqp import methods as m
from semq.amqp.content import Properties
from tests.differential.player import CloseChannel, On, Pause, Publish, Quiet, Script

QUEUES = ("d.q", "d.r", "d.s")
EXCHANGES = ("d.x", "d.y")
KEYS = ("a", "a.b", "b", "", "a.b.c", "d.q")
PATTERNS = ("a", "a.*", "#", "*.b", "a.#", "", "b", "d.q")
KINDS = ("direct", "fanout", "topic", "headers")
ARGUMENTS: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {"x-max-length": 2}, {"x-max-length": 2, "x-overflow": "reject-publish"}, {"x-max-priority": 2},
    {"x-dead-letter-exchange": "d.x"}, {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "d.r"},
    {"x-max-length": 1, "x-dead-letter-exchange": "d.y"}, {"x-max-length-bytes": 4},
    {"x-max-length": 2, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "d.x"},
)  # fmt: skip
HEADERS: tuple[dict[str, Any] | None, ...] = (None, {}, {"a": 1}, {"a": 1, "b": "x"}, {"b": "x"}, {"CC": ["d.r"]})
MATCHES: tuple[dict[str, Any], ...] = ({}, {"x-match": "any", "a": 1}, {"x-match": "all", "a": 1, "b": "x"})


def draw(seed: int, length: int = 60) -> Script:
    random = Random(seed)
    steps: list[Any] = [m.ConfirmSelect()]
    tags = 0
    for _ in range(length):
        act = random.choices(list(_ACTS), list(_ACTS.values()))[0]
        step = act(random, tags)
        tags += isinstance(step, m.BasicGet)
        steps += [step, Pause(0.02)]  # time for dead letters, which are routed without a request
        if random.random() < 0.2:
            # An absent queue closes the channel; the new channel is not in confirm mode.
            steps += [m.QueueDeclare(random.choice(QUEUES), passive=True), m.ConfirmSelect()]
    return [step if isinstance(step, On | Quiet) else On(1, 1, step) for step in [*steps, Quiet()]]


def _queue(random: Random, _: int) -> m.QueueDeclare:
    return m.QueueDeclare(random.choice(QUEUES), durable=random.random() < 0.2, arguments=random.choice(ARGUMENTS))


def _exchange(random: Random, _: int) -> m.ExchangeDeclare:
    arguments = {"alternate-exchange": random.choice(EXCHANGES)} if random.random() < 0.2 else {}
    return m.ExchangeDeclare(
        random.choice(EXCHANGES), random.choice(KINDS), auto_delete=random.random() < 0.2, arguments=arguments
    )


def _bind(random: Random, _: int) -> m.Method:
    exchange, key, arguments = random.choice(EXCHANGES), random.choice(PATTERNS), random.choice(MATCHES)
    if random.random() < 0.2:
        return m.ExchangeBind(random.choice(EXCHANGES), exchange, key, arguments=arguments)
    return m.QueueBind(random.choice(QUEUES), exchange, key, arguments=arguments)


def _unbind(random: Random, _: int) -> m.Method:
    return m.QueueUnbind(
        random.choice(QUEUES), random.choice(EXCHANGES), random.choice(PATTERNS), random.choice(MATCHES)
    )


def _publish(random: Random, _: int) -> Publish:
    properties = Properties(
        headers=random.choice(HEADERS),
        priority=random.choice([None, None, 0, 1, 2, 5]),
        delivery_mode=random.choice([None, 1, 2]),
        message_id=random.choice([None, "m"]),
    )
    body = b"%d" % random.randrange(1000)
    if random.random() < 0.5:
        return Publish("", random.choice(QUEUES), body, properties, mandatory=random.random() < 0.3)
    return Publish(random.choice(EXCHANGES), random.choice(KEYS), body, properties, mandatory=random.random() < 0.3)


def _get(random: Random, _: int) -> m.BasicGet:
    return m.BasicGet(random.choice(QUEUES), no_ack=random.random() < 0.3)


def _settle(random: Random, tags: int) -> m.Method:
    tag, multiple, requeue = random.randint(0, max(tags, 1)), random.random() < 0.3, random.random() < 0.6
    match random.randrange(3):
        case 0:
            return m.BasicAck(tag, multiple)
        case 1:
            return m.BasicNack(tag, multiple, requeue)
    return m.BasicReject(tag, requeue)


def _remove(random: Random, _: int) -> m.Method:
    if random.random() < 0.5:
        return m.ExchangeDelete(random.choice(EXCHANGES), if_unused=random.random() < 0.3)
    return m.QueueDelete(random.choice(QUEUES), if_empty=random.random() < 0.3)


def _purge(random: Random, _: int) -> m.Method:
    return m.QueuePurge(random.choice(QUEUES))


def _close_channel(_: Random, __: int) -> CloseChannel:
    return CloseChannel()


# function that draws a step, from random numbers and the number of gets so far | weight
_ACTS: dict[Any, int] = {
    _queue: 8, _exchange: 5, _bind: 12, _unbind: 2, _publish: 30, _get: 20, _settle: 12, _remove: 2, _purge: 1,
    _close_channel: 1,
}  # fmt: skip
