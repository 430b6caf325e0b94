#!/bin/sh
# Celery 5.7.0 with quorum queues on RabbitMQ 3.10.8 (Debian 12): a task with a countdown that is sent before the first worker has ever
# started is lost; apply_async returns as usual. Such tasks go to exchange celery_delayed_27, which the worker declares at its start.
# A task without countdown waits for the worker, and so does a countdown sent after the start. (With confirm_publish, not the default,
# apply_async raises NotFound.) Expected: the task runs when a worker comes, as with classic queues, or an error.
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
venv/bin/python -m pip install --quiet --disable-pip-version-check celery==5.7.0
cat >app.py <<'PYTHON'
import os

from celery import Celery

app = Celery("app", broker=f"amqp://guest:guest@127.0.0.1:{os.environ['RABBITMQ_NODE_PORT']}//")
app.conf.update(
    task_default_queue_type="quorum", task_default_exchange_type="topic", worker_prefetch_multiplier=1,
    worker_detect_quorum_queues=True,
)


@app.task
def note(name):
    with open("ran", "a") as file:
        file.write(name + "\n")
PYTHON
cat >run.py <<'PYTHON'
import subprocess
import sys
import time

from app import app

SEND = "import sys, app; app.note.apply_async((sys.argv[1],), countdown=float(sys.argv[2]) or None)"


def send(name, countdown):
    subprocess.run([sys.executable, "-c", SEND, name, str(countdown)], check=True)


for _ in range(120):
    try:
        with app.connection() as connection:
            connection.connect()
        break
    except OSError:
        time.sleep(1)
send("sent before the worker, no countdown", 0)
send("sent before the worker, countdown", 1)
worker = subprocess.Popen([sys.executable, "-m", "celery", "-q", "-A", "app", "worker", "-P", "solo"], stderr=subprocess.DEVNULL)


def ran():
    try:
        return open("ran").read().splitlines()
    except FileNotFoundError:
        return []


while not ran() and worker.poll() is None:
    time.sleep(0.5)
send("sent after the start, countdown", 1)
while len(ran()) < 2 and worker.poll() is None:
    time.sleep(0.5)
time.sleep(10)
worker.terminate()
worker.wait()
PYTHON
timeout 300 venv/bin/python run.py >celery.log 2>&1 || cat celery.log
sort ran >seen
cat >expected <<'EXPECTED'
sent after the start, countdown
sent before the worker, no countdown
EXPECTED
cat seen
diff expected seen
