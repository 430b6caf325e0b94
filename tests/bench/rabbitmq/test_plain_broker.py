"""``./run broker`` as a process."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ConnectionClosedByBroker

from bench.rabbitmq import plain_broker
from bench.rabbitmq.plain_broker import main
from tests.prepared.client import PreparedProcess, start_prepared

LIMITS = {"HANDSHAKE_S": 5.0, "MAX_CHANNELS": 7, "MAX_QUEUES": 2, "MEMORY_BYTES": 2_000_000, "MIN_FREE_DISK_BYTES": 0}
LOGIN = "user guest, password guest, virtual host /, from this machine only"


@contextmanager
def running(*arguments: str) -> Iterator[tuple[PreparedProcess, int]]:
    """Yield the process of a broker and its port."""
    process = start_prepared("bench.rabbitmq.plain_broker", "--port", "0", *arguments)
    with process.stdout as printed:
        try:
            output, _, port = printed.readline().decode().strip().partition(" 127.0.0.1:")
            assert output == "ready"
            yield process, int(port)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
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


def process_events(connection: pika.BlockingConnection) -> None:
    while True:
        connection.process_data_events(time_limit=1)


def test_confirmed_messages_survive_a_kill_and_are_redelivered_with_the_flag(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """At its start the broker prints on standard error where its data is, and who may log in."""
    folder = str(tmp_path / "data")
    with running("--data", folder) as (process, port):
        assert capfd.readouterr().err.splitlines()[0] == f"broker: data in {folder}; {LOGIN}"
        with channel_of(port) as channel:
            channel.exchange_declare("kept", "topic", durable=True)
            channel.queue_declare("kept", durable=True, arguments={"x-max-priority": 3})
            channel.queue_bind("kept", "kept", "a.#")
            for number in range(50):
                properties = pika.BasicProperties(delivery_mode=2, priority=number % 3, headers={"n": number})
                channel.basic_publish("kept", "a.b", b"%d" % number, properties, mandatory=True)
            channel.queue_declare("q", durable=True)
            for number in range(3):
                channel.basic_publish("", "q", b"%d" % number, pika.BasicProperties(delivery_mode=2))
            assert channel.basic_get("q")[2] == b"0"
            process.kill()  # perhaps before the broker has stored that a message was delivered
            process.wait(60)
    with running("--data", folder) as (process, port):
        with channel_of(port) as channel:
            assert channel.queue_declare("kept", passive=True).method.message_count == 50
            bodies = [int(channel.basic_get("kept", auto_ack=True)[2]) for _ in range(50)]
            assert bodies == sorted(range(50), key=lambda number: (-(number % 3), number))
            channel.basic_publish("kept", "a", b"", mandatory=True)  # the binding exists, too
            channel.basic_publish("", "q", b"3", pika.BasicProperties(delivery_mode=2))
            messages = [channel.basic_get("q", auto_ack=True) for _ in range(4)]
            assert [body for _, _, body in messages] == [b"0", b"1", b"2", b"3"]
            assert [method.redelivered for method, _, _ in messages] == [True, True, True, False]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_limits_are_set_by_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LIMITS.items():
        monkeypatch.setenv(f"SEMQ_AMQP__{name}", str(value))
    with running() as (_, port):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as incomplete:
            incomplete.sendall(b"AMQP")
            assert incomplete.recv(100) == b""  # closed after HANDSHAKE_S
        parameters = pika.ConnectionParameters("127.0.0.1", port, channel_max=100)
        connection, consuming = pika.BlockingConnection(parameters), pika.BlockingConnection(parameters)
        assert connection._impl.params.channel_max == LIMITS["MAX_CHANNELS"]  # noqa: SLF001 - no public name has it
        notices: list[str] = []
        connection.add_on_connection_blocked_callback(lambda _, frame: notices.append(frame.method.reason))
        connection.add_on_connection_unblocked_callback(lambda *_: notices.append("over"))
        channel = connection.channel()
        for queue in ("one", "two"):
            channel.queue_declare(queue)
        while not notices:
            channel.basic_publish("", "one", b"x" * 10_000)
            connection.process_data_events(time_limit=0)
        accepted = consuming.channel().queue_purge("one").method.message_count
        assert notices[0] == "low on memory"
        assert 100 <= accepted <= 1_000  # 1 to 10 MB: blocked soon after the limit of 2 MB
        while "over" not in notices:
            connection.process_data_events(time_limit=1)
        with pytest.raises(ConnectionClosedByBroker, match="queue limit"):
            channel.queue_declare("three")
        consuming.close()


def test_a_disk_that_is_nearly_full_blocks_publishers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """At the end the broker removes its temporary folder, as it has announced on standard error."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("SEMQ_AMQP__MIN_FREE_DISK_BYTES", str(1 << 62))
    with running() as (process, port), channel_of(port) as channel:
        assert "(temporary: deleted at the end; --data DIR keeps it)" in capfd.readouterr().err.splitlines()[0]
        notices: list[str] = []
        connection = channel.connection
        connection.add_on_connection_blocked_callback(lambda _, frame: notices.append(frame.method.reason))
        channel.queue_declare("one")
        channel.confirm_delivery()
        with suppress(AMQPError):
            channel.basic_publish("", "one", b"x")  # now the client is a publisher
        while not notices:
            connection.process_data_events(time_limit=1)
        assert notices == ["low on disk"]
        assert list(tmp_path.glob("semq-broker-*"))
        # The broker does not read from a blocked client, but the client reads from the broker.
        process.send_signal(signal.SIGINT)
        with pytest.raises(ConnectionClosedByBroker, match="320"):
            process_events(connection)
        assert process.wait(60) == 0
    assert list(tmp_path.iterdir()) == []


def test_variables_of_a_node_change_neither_the_port_nor_who_may_log_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMQ_AMQP__MAX_QUEUES", "2")
    for name, value in {
        "SEMQ_AMQP__PORT": "1234",
        "SEMQ_AMQP__port": "1234",
        "SEMQ_AMQP__HOST": "0.0.0.0",
        "SEMQ_AMQP__USERS__ERP": "secret",
        "SEMQ_AMQP__USERS": '{"web": "secret"}',
        "SEMQ_AMQP__TLS": "true",
        "SEMQ_AMQP__ALLOW_PLAIN": "true",
    }.items():
        monkeypatch.setenv(name, value)
    amqp = plain_broker._settings(tmp_path, 5673).amqp
    assert (amqp.host, amqp.port, amqp.users, amqp.tls, amqp.allow_plain) == ("127.0.0.1", 5673, {}, False, False)
    assert amqp.max_queues == 2


def test_unusable_arguments_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["--data", str(tmp_path / "file")]) == 78
    assert "cannot be used as data folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--port", "65536"])
