# mypy: ignore-errors
# The framework is installed only where ``__main__`` runs this program.
"""dramatiq at an institution: its actors cannot consume the inbox, so a consumer hands each document to an actor.

dramatiq declares the queue of an actor with dead-letter arguments, and reads only messages that dramatiq has encoded.
"""

import queue
import sys
import time

import dramatiq
import pika
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.errors import ConnectionError as BrokerError

SENDER, RECEIVER, TARGET = sys.argv[1:]
broker = RabbitmqBroker(url=RECEIVER, confirm_delivery=True)
dramatiq.set_broker(broker)
done: "queue.Queue[object]" = queue.Queue()


@dramatiq.actor(queue_name="semq.inbox")
def impossible(body: str) -> None:
    done.put(body)


reason = ""
try:
    impossible.send("x")
except BrokerError as error:
    reason = str(error)
assert "a rejected document is parked (semq failed list)" in reason, reason

broker = RabbitmqBroker(url=RECEIVER, confirm_delivery=True)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="documents")
def order(lk0: str, source: str, body: str) -> None:
    done.put((source, body))


worker = dramatiq.Worker(broker, worker_timeout=100)
worker.start()
with pika.BlockingConnection(pika.URLParameters(SENDER)) as sender:
    channel = sender.channel()
    channel.confirm_delivery()
    for number in range(3):
        channel.basic_publish("semq", TARGET, f"order {number}")
with pika.BlockingConnection(pika.URLParameters(RECEIVER)) as receiver:
    channel = receiver.channel()
    until = time.monotonic() + 60
    for method, properties, body in channel.consume("semq.inbox", inactivity_timeout=1):
        if method is not None:
            order.send(properties.message_id, properties.headers["@Source"], body.decode())  # confirmed by the node
            channel.basic_ack(method.delivery_tag)
        if (method is not None and method.delivery_tag == 3) or time.monotonic() > until:
            break
assert sorted(done.get(timeout=60) for _ in range(3)) == [("1.10008", f"order {number}") for number in range(3)]
worker.stop()
broker.close()
