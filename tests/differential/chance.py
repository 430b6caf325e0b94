"""Random scripts: definitions, publishes, gets and settlements over few names, so that they interact often.

Each step has a confirm or an answer, so both brokers have the same state after it. Consumers occur only in written
scripts, because brokers may choose which of several gets a message.
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
    """Return a script of ``length`` random steps."""
    dice = Random(seed)
    steps: list[Any] = [m.ConfirmSelect()]
    tags = 0
    for _ in range(length):
        act = dice.choices(list(_ACTS), list(_ACTS.values()))[0]
        step = act(dice, tags)
        tags += isinstance(step, m.BasicGet)
        steps += [step, Pause(0.02)]  # dead letters move from queue to queue by themselves
        if dice.random() < 0.2:
            # A refusal has closed the channel; it is opened again, without confirms and with tags from 1.
            steps += [m.QueueDeclare(dice.choice(QUEUES), passive=True), m.ConfirmSelect()]
    return [step if isinstance(step, On | Quiet) else On(1, 1, step) for step in [*steps, Quiet()]]


def _queue(dice: Random, _: int) -> m.QueueDeclare:
    return m.QueueDeclare(dice.choice(QUEUES), durable=dice.random() < 0.2, arguments=dice.choice(ARGUMENTS))


def _exchange(dice: Random, _: int) -> m.ExchangeDeclare:
    arguments = {"alternate-exchange": dice.choice(EXCHANGES)} if dice.random() < 0.2 else {}
    return m.ExchangeDeclare(
        dice.choice(EXCHANGES), dice.choice(KINDS), auto_delete=dice.random() < 0.2, arguments=arguments
    )


def _bind(dice: Random, _: int) -> m.Method:
    exchange, key, arguments = dice.choice(EXCHANGES), dice.choice(PATTERNS), dice.choice(MATCHES)
    if dice.random() < 0.2:
        return m.ExchangeBind(dice.choice(EXCHANGES), exchange, key, arguments=arguments)
    return m.QueueBind(dice.choice(QUEUES), exchange, key, arguments=arguments)


def _unbind(dice: Random, _: int) -> m.Method:
    return m.QueueUnbind(dice.choice(QUEUES), dice.choice(EXCHANGES), dice.choice(PATTERNS), dice.choice(MATCHES))


def _publish(dice: Random, _: int) -> Publish:
    properties = Properties(
        headers=dice.choice(HEADERS),
        priority=dice.choice([None, None, 0, 1, 2, 5]),
        delivery_mode=dice.choice([None, 1, 2]),
        message_id=dice.choice([None, "m"]),
    )
    body = b"%d" % dice.randrange(1000)
    if dice.random() < 0.5:
        return Publish("", dice.choice(QUEUES), body, properties, mandatory=dice.random() < 0.3)
    return Publish(dice.choice(EXCHANGES), dice.choice(KEYS), body, properties, mandatory=dice.random() < 0.3)


def _get(dice: Random, _: int) -> m.BasicGet:
    return m.BasicGet(dice.choice(QUEUES), no_ack=dice.random() < 0.3)


def _settle(dice: Random, tags: int) -> m.Method:
    tag, multiple, requeue = dice.randint(0, max(tags, 1)), dice.random() < 0.3, dice.random() < 0.6
    match dice.randrange(3):
        case 0:
            return m.BasicAck(tag, multiple)
        case 1:
            return m.BasicNack(tag, multiple, requeue)
    return m.BasicReject(tag, requeue)


def _remove(dice: Random, _: int) -> m.Method:
    if dice.random() < 0.5:
        return m.ExchangeDelete(dice.choice(EXCHANGES), if_unused=dice.random() < 0.3)
    return m.QueueDelete(dice.choice(QUEUES), if_empty=dice.random() < 0.3)


def _purge(dice: Random, _: int) -> m.Method:
    return m.QueuePurge(dice.choice(QUEUES))


def _end(_: Random, __: int) -> CloseChannel:
    return CloseChannel()


# step | weight
_ACTS: dict[Any, int] = {
    _queue: 8, _exchange: 5, _bind: 12, _unbind: 2, _publish: 30, _get: 20, _settle: 12, _remove: 2, _purge: 1, _end: 1,
}  # fmt: skip
