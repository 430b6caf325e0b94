"""A Celery application whose broker is a node. Run by ``test_celery``.

Several are made in one process, so that tasks are not shared between applications.
"""

import os
from typing import Any

from celery import Celery

app = Celery("tasks", broker=os.environ["NODE_URL"], backend=os.environ.get("RESULTS", "rpc://"))
QUEUE_TYPE = os.environ.get("QUEUE_TYPE", "classic")
app.conf.update(
    task_default_queue=f"celery.interop.{QUEUE_TYPE}",
    task_default_queue_type=QUEUE_TYPE,
    task_default_exchange=f"celery.interop.{QUEUE_TYPE}",
    task_default_exchange_type="topic",
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


@app.task(shared=False)  # type: ignore[untyped-decorator]
def add(x: int, y: int) -> int:
    return x + y


@app.task(bind=True, max_retries=2, shared=False)  # type: ignore[untyped-decorator]
def retry_twice(self: Any) -> int:
    """Succeed at the third attempt."""
    if self.request.retries < 2:
        raise self.retry(countdown=1)  # with quorum queues, Celery refuses fractions of a second
    return int(self.request.retries)


@app.task(shared=False)  # type: ignore[untyped-decorator]
def total(numbers: list[int]) -> int:
    return sum(numbers)
