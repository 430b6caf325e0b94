"""``./run broker`` as a process of its own: it says when it is ready, keeps what is durable, and ends in order."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from local_node.broker import main


@contextmanager
def running(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """The process and its port; killed at the end if it still runs."""
    command = [sys.executable, "-P", "-m", "local_node.broker", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said, _, port = process.stdout.readline().strip().partition(" 127.0.0.1:")
            assert said == "ready"
            yield process, int(port)
        finally:
            process.kill()


@contextmanager
def channel_of(port: int) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    with suppress(AMQPError):  # the broker may have been killed
        connection.close()


def test_what_was_confirmed_survives_a_kill(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    with running("--data", folder) as (process, port):
        with channel_of(port) as channel:
            channel.exchange_declare("kept", "topic", durable=True)
            channel.queue_declare("kept", durable=True, arguments={"x-max-priority": 3})
            channel.queue_bind("kept", "kept", "a.#")
            for number in range(50):
                properties = pika.BasicProperties(delivery_mode=2, priority=number % 3, headers={"n": number})
                channel.basic_publish("kept", "a.b", b"%d" % number, properties, mandatory=True)
            process.kill()
            process.wait(60)
    with running("--data", folder) as (process, port):
        with channel_of(port) as channel:
            assert channel.queue_declare("kept", passive=True).method.message_count == 50
            bodies = [int(channel.basic_get("kept", auto_ack=True)[2]) for _ in range(50)]
            assert bodies == sorted(range(50), key=lambda number: (-(number % 3), number))
            channel.basic_publish("kept", "a", b"", mandatory=True)  # the binding is there too
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_without_a_folder_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with running() as (process, port):
        with channel_of(port):
            pass
        assert list(tmp_path.glob("semq-broker-*"))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["--data", str(tmp_path / "file")]) == 78
    assert "cannot be used as data folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--port", "65536"])
