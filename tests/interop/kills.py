"""A node that is killed repeatedly while pika publishes, consumes, rejects and commits; then the messages are counted.

./run python -m tests.interop.kills --kills 30

``ClientBook`` records what the clients did and what was confirmed; ``compare_queues`` drains the queues after the last
start and compares. An operation without a confirmed result may have happened or not.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from bench.lone_node import node_process

TO_DEAD_LETTERS = {"x-dead-letter-exchange": ""}
QUEUES: dict[str, dict[str, object]] = {
    "work": {**TO_DEAD_LETTERS, "x-dead-letter-routing-key": "work.dead"},
    "work.dead": {},
    "short": {**TO_DEAD_LETTERS, "x-dead-letter-routing-key": "short.dead", "x-message-ttl": 1},
    "short.dead": {},
    "urgent": {"x-max-priority": 3},
    "left": {},
    "right": {},
    "late": {},
}
DELAYED = "late"  # an exchange that holds its messages for a millisecond or more; also its queue
PERSISTENT = 2  # value of the property delivery_mode
# In ``work``, multiples of 5 are rejected, multiples of 7 requeued once, multiples of 41 not acknowledged.
REJECTED_EVERY, RETURNED_EVERY, KEPT_EVERY = 5, 7, 41


@dataclass
class ClientBook:
    """Record of the clients: their messages, by number. The body of a message is its number."""

    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    #: confirmed publishes, by queue
    confirmed: dict[str, set[int]] = field(
        default_factory=lambda: {name: set() for name in ("work", "short", "urgent", DELAYED)}
    )
    seen: set[int] = field(default_factory=set)  #: delivered from work
    acked: set[int] = field(default_factory=set)  #: acknowledged, perhaps without effect
    committed: set[int] = field(default_factory=set)  #: pairs whose transaction was committed
    complaints: list[str] = field(default_factory=list)
    kill_after: int = 0  #: the node is killed after the confirm of a message with this or a higher number
    is_time_to_kill: threading.Event = field(default_factory=threading.Event)

    def confirm(self, queue: str, number: int) -> None:
        self.confirmed[queue].add(number)
        if number >= self.kill_after:
            self.is_time_to_kill.set()

    def check(self, is_true: bool, complaint: str) -> None:
        if not is_true:
            self.complaints.append(complaint)


@contextmanager
def channel_of(port: int) -> Iterator[BlockingChannel]:
    """Yield a channel on a new connection."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    yield connection.channel()
    connection.close()


def publish(channel: BlockingChannel, book: ClientBook) -> None:
    """Publish to the queues in turns, each message after the confirm of the one before."""
    channel.confirm_delivery()
    while True:
        for queue in book.confirmed:
            number = next(book.numbers)
            headers = {"x-delay": 1 + number % 2000} if queue == DELAYED else None
            properties = pika.BasicProperties(headers=headers, delivery_mode=PERSISTENT, priority=number % 3)
            channel.basic_publish(DELAYED if headers else "", queue, str(number), properties, mandatory=True)
            book.confirm(queue, number)


def consume(channel: BlockingChannel, book: ClientBook) -> None:
    channel.basic_qos(prefetch_count=20)
    for method, _, body in channel.consume("work"):
        number = int(body)
        book.check(method.redelivered or number not in book.seen, f"{number} was delivered again without the flag")
        book.seen.add(number)
        if number % REJECTED_EVERY == 0:
            channel.basic_reject(method.delivery_tag, requeue=False)
        elif number % RETURNED_EVERY == 0 and not method.redelivered:
            channel.basic_nack(method.delivery_tag, requeue=True)
        elif number % KEPT_EVERY:
            channel.basic_ack(method.delivery_tag)
            book.acked.add(number)


def commit(channel: BlockingChannel, book: ClientBook) -> None:
    """Commit pairs of messages."""
    channel.tx_select()
    while True:
        number = next(book.numbers)
        for queue in ("left", "right"):
            channel.basic_publish("", queue, str(number), pika.BasicProperties(delivery_mode=PERSISTENT))
        channel.tx_commit()
        book.committed.add(number)


def kill_repeatedly(folder: Path, kills: int, seed: int, gap_max: int = 500) -> ClientBook:
    """Start and kill the node ``kills`` times; then compare its queues with the records of the clients.

    ``gap_max``: largest difference of two successive values of ``kill_after``.
    """
    random_numbers, book = random.Random(seed), ClientBook()
    for number in range(kills):
        book.is_time_to_kill.clear()
        book.kill_after += random_numbers.randint(20, gap_max)
        with node_process(folder) as (process, port):
            if not number:
                _declare(port)
            clients = [
                threading.Thread(target=_run_client, args=(port, act, book)) for act in (publish, consume, commit)
            ]
            for client in clients:
                client.start()
            book.check(book.is_time_to_kill.wait(60), "nothing is confirmed")
            process.kill()
            for client in clients:
                client.join(60)
    with node_process(folder) as (_, port), channel_of(port) as channel:
        compare_queues(channel, book)
    return book


def _declare(port: int) -> None:
    with channel_of(port) as channel:
        for queue, arguments in QUEUES.items():
            channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.exchange_declare(DELAYED, "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
        channel.queue_bind(DELAYED, DELAYED)


def _run_client(port: int, act: Callable[[BlockingChannel, ClientBook], None], book: ClientBook) -> None:
    try:
        with channel_of(port) as channel:
            act(channel, book)
    except AMQPError as error:
        book.check(not getattr(error, "reply_code", 0), f"{act.__name__}: {error}")


def compare_queues(channel: BlockingChannel, book: ClientBook) -> None:
    """Drain the queues, and record complaints. Messages of ``short`` expire, so ``short.dead`` is counted, as are those
    that are held first.
    """
    drained = {queue: list(_drain(channel, queue, book)) for queue in ("work", "work.dead", "urgent", "left", "right")}
    drained["short.dead"] = list(_drain(channel, "short.dead", book, len(book.confirmed["short"])))
    drained[DELAYED] = list(_drain(channel, DELAYED, book, len(book.confirmed[DELAYED])))
    for queue, numbers in drained.items():
        book.check(len(numbers) == len(set(numbers)), f"{queue} has a message twice")
    waiting, dead = set(drained["work"]), set(drained["work.dead"])
    book.check(not waiting & dead, "a message is both dead and alive")
    lost = book.confirmed["work"] - waiting - dead - book.acked
    book.check(not lost, f"confirmed in work and lost: {sorted(lost)[:10]}")
    book.check(all(number % REJECTED_EVERY == 0 for number in dead), "dead without having been rejected")
    book.check(drained["work"] == sorted(drained["work"]), "work is out of order")
    in_order = sorted(drained["urgent"], key=lambda number: (-(number % 3), number))
    book.check(drained["urgent"] == in_order, "urgent is out of order")
    for queue, queue_after in (("urgent", "urgent"), ("short", "short.dead"), (DELAYED, DELAYED)):
        missing = book.confirmed[queue] - set(drained[queue_after])
        book.check(not missing, f"confirmed in {queue} and lost: {sorted(missing)[:10]}")
    book.check(drained["left"] == drained["right"], "half of a transaction")
    book.check(book.committed <= set(drained["left"]), "a committed transaction is lost")


def _drain(channel: BlockingChannel, queue: str, book: ClientBook, at_least: int = 0) -> Iterator[int]:
    """Yield the number of each message; wait up to a minute for ``at_least`` of them."""
    deadline = time.monotonic() + 60
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            number, at_least = int(body), at_least - 1
            if queue == "work":
                book.check(
                    method.redelivered or number not in book.seen, f"{number} was delivered again without the flag"
                )
            yield number
        elif at_least <= 0 or time.monotonic() > deadline:
            return


def main() -> int:
    """Kill a node repeatedly; return 1 if there are complaints."""
    parser = argparse.ArgumentParser(description="Kill a node repeatedly, and count its messages.")
    parser.add_argument("--kills", type=int, default=30, metavar="N", help="number of kills (30)")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of the numbers of messages between two kills (1)"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        book = kill_repeatedly(Path(folder), arguments.kills, arguments.seed)
    confirmed = sum(map(len, book.confirmed.values()))
    print(f"{arguments.kills} kills, {confirmed} confirmed, {len(book.committed)} commits, {len(book.acked)} acked")
    print("\n".join(book.complaints) or "no complaints")
    return bool(book.complaints)


if __name__ == "__main__":
    sys.exit(main())
