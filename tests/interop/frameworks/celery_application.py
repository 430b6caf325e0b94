# mypy: ignore-errors
# The framework is installed only where ``__main__`` runs this program.
"""Celery as an application of two institutions: a task is sent as a document, and a worker consumes the inbox.

``celery_application.py SENDER RECEIVER TARGET`` starts itself as the worker. A delivery is repeated by
``Reject(requeue=True)``, and counted by the node: ``retry`` would submit a document of the receiver to itself.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from celery import Celery
from celery.exceptions import Reject
from kombu import Exchange, Queue
from kombu.exceptions import OperationalError

SUBMISSION = Exchange("semq", "topic", no_declare=True)
TARGETS = ("56001", "99999")
INBOX = [Queue("semq.inbox", SUBMISSION, no_declare=True)]
IS_WORKER = "DONE" in os.environ
app = Celery("orders", broker=os.environ.get("NODE_URL", "memory://"))
queues = INBOX if IS_WORKER else [Queue(name, SUBMISSION, routing_key=name, no_declare=True) for name in TARGETS]
app.conf.update(
    task_queues=queues,
    task_default_queue=queues[0].name,
    task_create_missing_queues=False,
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    broker_transport_options={"confirm_publish": True},
)
attempts: list[int] = []


@app.task(name="order")
def order(number: int) -> None:
    if number == 2 and not attempts:
        attempts.append(number)
        raise Reject("not yet", requeue=True)
    with Path(os.environ["DONE"]).open("a") as done:
        print(number, file=done, flush=True)


def main(sender: str, receiver: str, target: str) -> None:
    with TemporaryDirectory() as folder:
        done = Path(folder) / "done"
        os.mkfifo(done)
        command = [sys.executable, "-m", "celery", "-A", "celery_application", "worker", "-P", "solo", "-l", "WARNING"]
        environment = {**os.environ, "NODE_URL": receiver, "DONE": str(done)}
        command += ["--without-mingle", "--without-gossip"]
        with subprocess.Popen(command, env=environment, cwd=Path(__file__).parent) as worker:
            try:
                app.conf.broker_url = sender
                for number in (1, 2):
                    order.apply_async((number,), queue=target)
                    assert int(done.read_text()) == number
                order.apply_async((3,), queue=target, countdown=1)
                assert int(done.read_text()) == 3
                refused = False
                try:
                    order.apply_async((4,), queue="99999")
                except OperationalError:  # of a nack: Celery sets ``reply_to``, and the reason goes there
                    refused = True
                assert refused
            finally:
                worker.terminate()


if __name__ == "__main__":
    main(*sys.argv[1:])
