"""The declarations of frameworks in other languages, from their published sources, and a message through each of them.

Sources: NServiceBus.RabbitMQ, ``DelayInfrastructure``; Symfony Messenger, ``Bridge/Amqp/Transport/Connection``.
"""

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

LEVELS = 28  # of NServiceBus: a queue for each bit of a delay in seconds
DELIVERY = "nsb.delay-delivery"
ADDRESS = "interop.orders"  # the queue of an application


def level(number: int) -> str:
    return f"nsb.delay-level-{number:02}"


@pytest.fixture
def channel(url: str) -> Iterator[BlockingChannel]:
    """Return a channel, with the queue of an application."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(ADDRESS, durable=True, arguments={"x-queue-type": "quorum"})
    yield channel
    channel.queue_delete(ADDRESS)
    connection.close()


def received(channel: BlockingChannel) -> bytes:
    _, _, body = next(channel.consume(ADDRESS, auto_ack=True, inactivity_timeout=60))
    channel.cancel()
    return bytes(body or b"")


@pytest.mark.parametrize("arguments", [{"x-queue-mode": "lazy"}, {"x-queue-type": "quorum"}])
def test_a_message_passes_the_delay_queues_of_nservicebus(channel: BlockingChannel, arguments: dict[str, str]) -> None:
    for number in range(LEVELS - 1, -1, -1):
        following = level(number - 1) if number else DELIVERY
        channel.exchange_declare(level(number), "topic", durable=True)
        times = {"x-message-ttl": 1000 * 2**number, "x-dead-letter-exchange": following}
        channel.queue_declare(level(number), durable=True, arguments={**arguments, **times})
        channel.queue_bind(level(number), level(number), "*." * (LEVELS - 1 - number) + "1.#")
    channel.exchange_declare(DELIVERY, "topic", durable=True)
    for number in range(LEVELS - 1, -1, -1):
        following = level(number - 1) if number else DELIVERY
        channel.exchange_bind(following, level(number), "*." * (LEVELS - 1 - number) + "0.#")
    channel.queue_bind(ADDRESS, DELIVERY, f"#.{ADDRESS}")
    channel.basic_publish(level(0), "0." * (LEVELS - 1) + f"1.{ADDRESS}", b"after a second", mandatory=True)
    assert received(channel) == b"after a second"
    for number in range(LEVELS):
        channel.queue_delete(level(number))
        channel.exchange_delete(level(number))
    channel.exchange_delete(DELIVERY)


@pytest.mark.parametrize("is_retry", [False, True])
def test_a_message_passes_a_delay_queue_of_symfony(channel: BlockingChannel, is_retry: bool) -> None:
    delay, name = 500, f"delay_messages__{500}_{is_retry}"
    channel.exchange_declare("messages", "fanout", durable=True)
    channel.exchange_declare("delays", "direct", durable=True)
    channel.queue_bind(ADDRESS, "messages")
    for _ in range(2):  # declared again for each message, which renews its time
        channel.queue_declare(
            name,
            durable=True,
            arguments={
                "x-message-ttl": delay,
                "x-expires": delay + 10_000,
                "x-dead-letter-exchange": "" if is_retry else "messages",
                "x-dead-letter-routing-key": ADDRESS if is_retry else "",
            },
        )
    channel.queue_bind(name, "delays", name)
    channel.basic_publish("delays", name, b"later", mandatory=True)
    assert received(channel) == b"later"
    for exchange in ("messages", "delays"):
        channel.exchange_delete(exchange)
    channel.queue_delete(name)
