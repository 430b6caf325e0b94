"""Pipelines: requests sent at once, without waiting for an answer, on a channel of a connection of its own.

A pipeline is named by its requests. The answers are the received methods in their order, until the broker closes the
socket or sends nothing more. The texts of closes are left out, because they may differ between brokers.
"""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

from semq.amqp import methods as m
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.frames import FrameReader, frame
from semq.amqp.spec import FRAME_BODY, FRAME_HEADER
from tests.broker.raw import RawClient
from tests.differential.bare import QUIET_S, framed, log_in, read_lines

QUEUE = "d.pipeline"
PARALLEL = 8  # connections at the same time


def published(exchange: str, routing_key: str) -> bytes:
    """Return a publish with its content."""
    header = frame(FRAME_HEADER, 1, ContentHeader.build(1, Properties()).raw)
    return framed(m.BasicPublish(exchange, routing_key)) + header + frame(FRAME_BODY, 1, b"x")


REQUESTS: dict[str, bytes] = {
    "confirm": framed(m.ConfirmSelect()),
    "publish": published("", QUEUE),
    "wrong": published("d.nowhere", "k"),
    "declare": framed(m.QueueDeclare(QUEUE)),
    "absent": framed(m.QueueDeclare("d.nowhere", passive=True)),
    "ack": framed(m.BasicAck(99)),
    "select": framed(m.TxSelect()),
    "commit": framed(m.TxCommit()),
    "close": framed(m.ChannelClose(200, "bye")),
    "end": framed(m.ConnectionClose(200, "bye"), 0),
}
MIXED = (
    ("confirm", "publish", "wrong", "close", "end"),
    ("select", "publish", "commit", "close", "end"),
    ("declare", "ack", "publish", "close"),
    ("declare", "absent", "end"),
)


def _sequences() -> Iterator[str]:
    for requests in MIXED:
        for order in permutations(requests):
            until = order.index("end") + 1 if "end" in order else len(order)
            yield " ".join(order[:until])


# Outcomes of requests before connection.close that RabbitMQ does not send, and a node does
DROPPED = {"1 basic.ack 1", "1 tx.commit-ok", "1 channel.close-ok"}
PIPELINES = tuple(dict.fromkeys(_sequences()))


def bytes_of(pipeline: str) -> bytes:
    return b"".join(REQUESTS[request] for request in pipeline.split())


def answers(port: int, pipeline: str) -> str:
    """Return the answers of a broker to one pipeline."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        reader = FrameReader(1 << 20)
        log_in(connection, reader)
        connection.sendall(bytes_of(pipeline))
        connection.settimeout(QUIET_S)
        lines: list[str] = []
        while received := read_lines(connection, reader):
            lines += received
    return ", ".join(lines)


def all_answers(port: int) -> dict[str, str]:
    """Return the answers of a broker to every pipeline."""
    with RawClient(port).log_in() as client:
        client.request(m.QueueDeclare(QUEUE), m.QueueDeclareOk)
        with ThreadPoolExecutor(PARALLEL) as players:
            answered = dict(
                zip(PIPELINES, players.map(lambda pipeline: answers(port, pipeline), PIPELINES), strict=True)
            )
        client.request(m.QueueDelete(QUEUE), m.QueueDeleteOk)
    return answered


def differs(recorded: str, answered: str) -> bool:
    """Return whether the answers of a node lack one of RabbitMQ's, or add others than outcomes that RabbitMQ drops when
    the connection ends. Channels answer in any order.
    """
    for channel in ("0 ", "1 "):
        expected = [line for line in recorded.split(", ") if line.startswith(channel)]
        for line in answered.split(", "):
            if expected and line == expected[0]:
                expected.pop(0)
            elif line.startswith(channel) and line not in DROPPED:
                return True
        if expected:
            return True
    return False
