#!/bin/sh
# nameko 2.14.1 (kombu 5.7.0, eventlet 0.41.3) on RabbitMQ 3.10.8 (Debian 12): a message whose method raised is acknowledged, so it is gone
# although the service has not processed it; the log has the error. @consume(..., requeue_on_error=True) returns it.
# Expected: an entrypoint that acknowledges after the method, as this one does, returns or rejects the message if the method failed, so that
# the broker delivers it again or to a dead-letter exchange; FastStream 0.7.8 and dramatiq reject.
set -eu
folder=$(mktemp -d)
cd "$folder"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export HOME="$folder" ERL_EPMD_PORT=$((port + 1)) RABBITMQ_DIST_PORT=$((port + 2)) RABBITMQ_NODE_PORT="$port"
export RABBITMQ_NODENAME=finding@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_MNESIA_BASE="$folder/db"
export RABBITMQ_LOG_BASE="$folder/log" RABBITMQ_ENABLED_PLUGINS_FILE="$folder/plugins" RABBITMQ_CONFIG_FILE="$folder/none"
/usr/lib/rabbitmq/bin/rabbitmq-server >server.log 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; epmd -port "$ERL_EPMD_PORT" -kill >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check nameko==2.14.1 kombu==5.7.0 eventlet==0.41.3 'setuptools<81'
cat >run.py <<'PYTHON'
import eventlet

eventlet.monkey_patch()

import os
import time

from kombu import Connection, Exchange, Queue
from nameko.containers import ServiceContainer
from nameko.messaging import consume

URL = f"amqp://guest:guest@127.0.0.1:{os.environ['RABBITMQ_NODE_PORT']}//"
DEAD = Exchange("dead", "fanout")
ORDERS = {
    name: Queue(name, Exchange("orders", "topic"), routing_key=name, queue_arguments={"x-dead-letter-exchange": "dead"})
    for name in ("default", "requeued")
}
runs = {name: 0 for name in ORDERS}


def process(name):
    runs[name] += 1
    if runs[name] == 1:
        raise ValueError("not yet")


class Service:
    name = "service"

    @consume(queue=ORDERS["default"])
    def by_default(self, body):
        process("default")

    @consume(queue=ORDERS["requeued"], requeue_on_error=True)
    def requeued(self, body):
        process("requeued")


for _ in range(120):
    try:
        with Connection(URL) as connection:
            connection.connect()
        break
    except OSError:
        time.sleep(1)
container = ServiceContainer(Service, config={"AMQP_URI": URL})
container.start()
with Connection(URL) as connection:
    dead = Queue("dead", DEAD)(connection.default_channel)
    dead.declare()
    for name, queue in ORDERS.items():
        connection.Producer().publish({}, exchange=queue.exchange, routing_key=name)
    for _ in range(200):
        eventlet.sleep(0.1)
        if runs["requeued"] > 1 and runs["default"]:
            break
    eventlet.sleep(3)
    container.stop()
    for name, queue in ORDERS.items():
        left = queue(connection.default_channel).queue_declare(passive=True).message_count
        print(name, "runs", runs[name], "messages left", left)
    print("dead letters", dead.queue_declare(passive=True).message_count)
PYTHON
timeout 300 venv/bin/python run.py >seen 2>nameko.log || tail -5 nameko.log
cat >expected <<'EXPECTED'
default runs 1 messages left 0
requeued runs 2 messages left 0
dead letters 0
EXPECTED
cat seen
diff expected seen
