"""The declarations of frameworks in other languages, from their published sources, and a message through each of them.

Sources: NServiceBus.RabbitMQ, ``DelayInfrastructure``; Symfony Messenger, ``Bridge/Amqp/Transport/Connection``;
MassTransit, ``RabbitMqReceiveEndpointBuilder`` and ``RabbitMqEndpointAddress.GetDelayAddress``; Spring AMQP,
``RabbitAdmin.declareExchanges`` and ``QueueBuilder``; Brighter, ``ExchangeConfigurationHelper`` and
``RmqMessageConsumer``.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

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


def received(channel: BlockingChannel, queue: str = ADDRESS) -> bytes:
    _, _, body = next(channel.consume(queue, auto_ack=True, inactivity_timeout=60))
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


@pytest.mark.parametrize("arguments", [{}, {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1}])
def test_masstransit_sends_now_and_by_its_delay_exchange(channel: BlockingChannel, arguments: dict[str, Any]) -> None:
    message, endpoint, delayed = "Contracts:SubmitOrder", "submit-order", "submit-order_delay"
    for name in (message, endpoint, f"{endpoint}_error", f"{endpoint}_skipped"):
        channel.exchange_declare(name, "fanout", durable=True)
    channel.queue_declare(endpoint, durable=True, arguments=arguments)
    channel.queue_bind(endpoint, endpoint, "")
    channel.exchange_bind(endpoint, message, "")
    channel.exchange_declare(delayed, "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"})
    channel.exchange_bind(endpoint, delayed, "")
    later = pika.BasicProperties(headers={"x-delay": 300}, delivery_mode=2)
    channel.basic_publish(delayed, "", b"later", later)
    channel.basic_publish(message, "", b"now", mandatory=True)
    assert [received(channel, endpoint) for _ in range(2)] == [b"now", b"later"]
    channel.queue_delete(endpoint)
    for name in (delayed, message, endpoint, f"{endpoint}_error", f"{endpoint}_skipped"):
        channel.exchange_delete(name)


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout", "headers"])
def test_spring_declares_each_type_of_exchange_as_delayed(channel: BlockingChannel, kind: str) -> None:
    name = f"spring.{kind}"
    channel.exchange_declare(name, "x-delayed-message", durable=True, arguments={"x-delayed-type": kind})
    for queue, arguments in SPRING_QUEUES.items():
        channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.queue_bind(queue, name, "orders", {"x-match": "all"} if kind == "headers" else {})
    later = pika.BasicProperties(headers={"x-delay": 200}, delivery_mode=2)
    channel.basic_publish(name, "orders", b"later", later)
    assert [received(channel, queue) for queue in SPRING_QUEUES] == [b"later"] * len(SPRING_QUEUES)
    channel.exchange_delete(name)
    for queue in SPRING_QUEUES:
        channel.queue_delete(queue)


# Queue | arguments that QueueBuilder sets
SPRING_QUEUES: dict[str, dict[str, Any]] = {
    "spring.plain": {},
    "spring.lazy": {"x-queue-mode": "lazy", "x-queue-master-locator": "min-masters", "x-max-priority": 5},
    "spring.quorum": {"x-queue-type": "quorum", "x-delivery-limit": 5, "x-queue-leader-locator": "balanced"},
    "spring.limits": {"x-message-ttl": 60_000, "x-expires": 60_000, "x-max-length": 9, "x-overflow": "reject-publish"},
    "spring.dead": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "spring.plain"},
}


def test_brighter_consumes_with_the_arguments_of_its_queue_and_delays_by_fractions(channel: BlockingChannel) -> None:
    exchange, queue, dead = "brighter", "brighter.orders", "brighter.orders.dead"
    channel.exchange_declare(exchange, "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
    arguments = {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": exchange,
        "x-dead-letter-routing-key": dead,
        "x-max-length": 10,
        "x-overflow": "reject-publish-dlx",
    }
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.queue_declare(dead, durable=True)
    channel.queue_bind(queue, exchange, "orders")
    channel.queue_bind(dead, exchange, dead)
    # Brighter sends a double, which pika cannot.
    delayed = pika.BasicProperties(headers={"x-delay": Decimal("250.5")}, delivery_mode=2)
    channel.basic_publish(exchange, "orders", b"later", delayed)
    channel.basic_consume(queue, lambda *_: None, consumer_tag="brighter", arguments=arguments)
    channel.basic_cancel("brighter")
    method = properties = None
    while method is None or properties is None:
        method, properties, _ = channel.basic_get(queue)
    assert properties.headers["x-delay"] == -250
    channel.basic_reject(method.delivery_tag, requeue=False)
    assert received(channel, dead) == b"later"
    for name in (queue, dead):
        channel.queue_delete(name)
    channel.exchange_delete(exchange)
