"""py-amqp with kombu, and a Celery worker whose broker is a node."""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

celery: Any = importlib.import_module("celery")  # packages without types
kombu: Any = importlib.import_module("kombu")
pools: Any = importlib.import_module("kombu.pools")
ROOT = Path(__file__).parents[2]
CHORDS = "chords"  # on quorum queues; ``rpc://`` has none


@pytest.fixture
def tasks(request: pytest.FixtureRequest, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the tasks, with a running worker, whose queues have this type; for ``CHORDS`` with results in files.

    With quorum queues, Celery declares a queue for each power of two of seconds of a delay, up to 2**27.
    """
    monkeypatch.setenv("NODE_URL", url)
    monkeypatch.setenv("QUEUE_TYPE", "quorum" if request.param == CHORDS else request.param)
    monkeypatch.setenv("RESULTS", f"file://{tmp_path}" if request.param == CHORDS else "rpc://")
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "tests.interop.tasks",
        "worker",
        "-c",
        "1",
        "-P",
        "solo",
        "-n",
        "t@%h",
    ]
    with subprocess.Popen(
        [*command, "--loglevel", "WARNING"], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as worker:
        tasks = importlib.reload(importlib.import_module("tests.interop.tasks"))
        yield tasks
        if request.param != CHORDS:
            tasks.app.backend.result_consumer.stop()
        pools.reset()  # Celery leaves its connections to the garbage collector, which would close them in another test
        tasks.app.close()
        worker.terminate()
        worker.wait(60)


@pytest.mark.parametrize("tasks", ["classic", "quorum"], indirect=True)
def test_a_celery_worker_runs_tasks(tasks: Any) -> None:
    assert tasks.add.delay(2, 3).get(timeout=90) == 5
    results = [tasks.add.delay(n, n) for n in range(20)]
    assert [result.get(timeout=90) for result in results] == [2 * n for n in range(20)]
    assert tasks.retry_twice.delay().get(timeout=90) == 2
    assert tasks.add.apply_async((1, 2), countdown=2).get(timeout=90) == 3
    soon = datetime.now(UTC) + timedelta(seconds=2)
    assert tasks.add.apply_async((3, 4), eta=soon).get(timeout=90) == 7


# As files cannot count, a task of Celery asks every second, by retries with a countdown, whether all results are there.
@pytest.mark.parametrize("tasks", [CHORDS], indirect=True)
def test_a_celery_worker_runs_a_chord_when_its_tasks_have_ended(tasks: Any) -> None:
    assert tasks.add.delay(2, 3).get(timeout=90) == 5  # the worker has declared the queues for delays
    header = [tasks.add.s(1, 2), tasks.add.s(3, 4)]
    assert celery.chord(header)(tasks.total.s()).get(timeout=90) == 10


def test_kombu_publishes_and_consumes(url: str) -> None:
    with kombu.Connection(url, transport_options={"confirm_publish": True}) as connection:
        exchange = kombu.Exchange("kombu.x", "topic", durable=False, auto_delete=True)
        queue = kombu.Queue("kombu.q", exchange, "order.#", durable=False, auto_delete=True, max_priority=5)
        received: list[Any] = []

        def on_message(body: Any, message: Any) -> None:
            received.append(body)
            message.ack()

        with connection.Producer(serializer="json") as producer, connection.channel() as channel:
            bound = queue(channel)
            bound.declare()
            for priority in (1, 5, 3):
                producer.publish({"n": priority}, exchange="kombu.x", routing_key="order.new", priority=priority)
            with kombu.Consumer(channel, [bound], callbacks=[on_message]):
                while len(received) < 3:
                    connection.drain_events(timeout=30)
        assert received == [{"n": 5}, {"n": 3}, {"n": 1}]


def test_kombu_uses_a_simple_queue_with_a_heartbeat(url: str) -> None:
    with kombu.Connection(url, heartbeat=4) as connection:
        simple = connection.SimpleQueue("kombu.simple", queue_opts={"auto_delete": True, "durable": False})
        simple.put({"hello": "wörld"})
        message = simple.get(block=True, timeout=30)
        assert message.payload == {"hello": "wörld"}
        message.ack()
        connection.heartbeat_check()
        simple.close()
