#!/bin/sh
# Celery 5.7.0 with quorum queues on RabbitMQ 3.10.8 (Debian 12): countdowns are whole seconds. apply_async(countdown=1.9) waits a second,
# countdown=0.9 raises ValueError "countdown must be a positive number", and so a task that calls retry(countdown=0.5) is rejected and lost:
# it does not run again, and its message is in no queue. Expected: a delay of half a second, or of a second, as on classic queues.
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
kind = os.environ["QUEUE_TYPE"]
app.conf.update(
    task_default_queue=kind, task_default_exchange=kind, task_default_queue_type=kind, task_default_exchange_type="topic",
    worker_prefetch_multiplier=1, worker_detect_quorum_queues=True, task_acks_late=True,
)


@app.task(bind=True)
def note(self, countdown):
    with open(f"ran-{kind}", "a") as file:
        file.write(f"{countdown}: run {self.request.retries + 1}\n")
    if countdown and not self.request.retries:
        raise self.retry(countdown=countdown)
PYTHON
cat >run.py <<'PYTHON'
import subprocess
import sys
import time

from app import app, kind, note


def ran():
    try:
        return open(f"ran-{kind}").read().splitlines()
    except FileNotFoundError:
        return []


def wait_for(line):
    for _ in range(240):
        if line in ran():
            return
        time.sleep(0.25)


for _ in range(120):
    try:
        with app.connection() as connection:
            connection.connect()
        break
    except OSError:
        time.sleep(1)
command = [sys.executable, "-m", "celery", "-q", "-A", "app", "worker", "-P", "solo", "-Q", kind]
worker = subprocess.Popen(command, stderr=subprocess.DEVNULL)
note.delay(0)
wait_for("0: run 1")
for countdown in (1, 0.5):
    note.delay(countdown)
    wait_for(f"{countdown}: run 1")
wait_for("1: run 2")
time.sleep(5)
worker.terminate()
worker.wait()
for line in sorted(ran()):
    print(kind, line)
with app.connection() as connection:
    count = app.amqp.queues[kind](connection.default_channel).queue_declare(passive=True).message_count
print(kind, "messages left:", count)
try:
    note.apply_async((0,), countdown=0.9)
    print(kind, "countdown=0.9 sent")
except ValueError as error:
    print(kind, "countdown=0.9", error)
PYTHON
for kind in classic quorum; do
    QUEUE_TYPE=$kind timeout 300 venv/bin/python run.py 2>celery.log | grep "^$kind" || cat celery.log
done >seen
cat >expected <<'EXPECTED'
classic 0.5: run 1
classic 0.5: run 2
classic 0: run 1
classic 1: run 1
classic 1: run 2
classic messages left: 0
classic countdown=0.9 sent
quorum 0.5: run 1
quorum 0: run 1
quorum 1: run 1
quorum 1: run 2
quorum messages left: 0
quorum countdown=0.9 countdown must be a positive number
EXPECTED
cat seen
diff expected seen
