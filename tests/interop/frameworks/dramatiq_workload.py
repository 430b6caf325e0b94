# mypy: ignore-errors
# The framework is installed only where ``__main__`` runs this program.
"""dramatiq: actors, a delayed message, a retry, and priorities of the queue."""

import queue
import sys

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

broker = RabbitmqBroker(url=sys.argv[1], max_priority=5)
dramatiq.set_broker(broker)
done: "queue.Queue[object]" = queue.Queue()
attempts: list[int] = []


@dramatiq.actor(queue_name="dramatiq.interop")
def add(x: int, y: int) -> None:
    done.put(x + y)


@dramatiq.actor(queue_name="dramatiq.interop", max_retries=2, min_backoff=50, max_backoff=100)
def succeed_later() -> None:
    attempts.append(1)
    if len(attempts) < 3:
        raise ValueError("not yet")
    done.put("third")


worker = dramatiq.Worker(broker, worker_timeout=100)
worker.start()
for number in range(5):
    add.send(number, number)
assert sorted(done.get(timeout=30) for _ in range(5)) == [0, 2, 4, 6, 8]
add.send_with_options(args=(1, 2), delay=1000)
assert done.get(timeout=30) == 3
succeed_later.send()
assert done.get(timeout=60) == "third"
worker.stop()
broker.close()
