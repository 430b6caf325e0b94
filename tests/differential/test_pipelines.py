"""Pipelines are answered as RabbitMQ answers them, in whatever pieces they arrive; a close follows all outcomes."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.lone_node import node
from semq.amqp import methods as m
from semq.amqp.frames import FrameReader
from tests.broker.raw import RawClient
from tests.broker.served import RunningBroker, run_broker
from tests.differential.bare import log_in, read_lines
from tests.differential.pipelines import PIPELINES, QUEUE, all_answers, bytes_of, differs
from tests.differential.recordings import recordings

# All kinds of requests and of ends
SPLIT = (
    "confirm publish close end", "confirm publish wrong end", "publish wrong close end", "select publish commit end",
    "declare ack publish end", "declare absent close end",
)  # fmt: skip


def test_a_node_answers_pipelines_as_rabbitmq_did(tmp_path: Path) -> None:
    with node(tmp_path) as port:
        answered = all_answers(port)
    for version, recorded in recordings().items():
        different = {
            pipeline: (recorded["pipelines"][pipeline], answered[pipeline])
            for pipeline in PIPELINES
            if differs(recorded["pipelines"][pipeline], answered[pipeline])
        }
        assert different == {}, version


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with run_broker() as running, RawClient(running.port).log_in() as client:
        client.request(m.QueueDeclare(QUEUE), m.QueueDeclareOk)
        yield running


def answers_to(broker: RunningBroker, *parts: bytes) -> list[str]:
    """Return the answers to ``parts``, each of which the server gets in one read."""
    known = broker.call(lambda: set(broker.server.sessions))
    with socket.create_connection(("127.0.0.1", broker.port)) as connection:
        reader = FrameReader(1 << 20)
        log_in(connection, reader)
        (session,) = broker.call(lambda: set(broker.server.sessions) - known)

        async def read(part: bytes) -> None:
            buffer = session.link.get_buffer(len(part))
            buffer[: len(part)] = part
            session.link.buffer_updated(len(part))

        for part in parts:
            asyncio.run_coroutine_threadsafe(read(part), broker.loop).result(10)
        lines: list[str] = []
        while "0 connection.close-ok" not in lines:
            received = read_lines(connection, reader)
            assert received, lines
            lines += received
    return lines


@pytest.mark.parametrize("pipeline", SPLIT)
def test_a_pipeline_may_be_split_at_every_byte(broker: RunningBroker, pipeline: str) -> None:
    data = bytes_of(pipeline)
    expected = answers_to(broker, data)
    for at in range(1, len(data)):
        assert answers_to(broker, data[:at], data[at:]) == expected, at
    assert answers_to(broker, *(data[at : at + 1] for at in range(len(data)))) == expected
