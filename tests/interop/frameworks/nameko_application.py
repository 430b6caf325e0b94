# mypy: ignore-errors
# The framework is installed only where ``__main__`` runs this program.
"""nameko as an application of two institutions: ``Publisher`` and ``@consume``, a repeated delivery, a refusal."""

import eventlet

eventlet.monkey_patch()

import queue  # noqa: E402
import sys  # noqa: E402

from kombu import Exchange, Queue  # noqa: E402
from nameko.containers import ServiceContainer  # noqa: E402
from nameko.exceptions import RemoteError  # noqa: E402
from nameko.messaging import Publisher, consume  # noqa: E402
from nameko.rpc import rpc  # noqa: E402
from nameko.standalone.rpc import ClusterRpcProxy  # noqa: E402

SENDER, RECEIVER, TARGET = sys.argv[1:]
done: "queue.Queue[object]" = queue.Queue()
failed: list[object] = []


class SentOrders:
    name = "orders"
    publish = Publisher(exchange=Exchange("semq", "topic", no_declare=True))

    @rpc
    def send(self, target, body):
        self.publish(body, routing_key=target, headers={"ref": "R1"})


class ReceivedOrders:
    name = "inbox"

    @consume(queue=Queue("semq.inbox", no_declare=True), requeue_on_error=True)
    def order(self, body):
        if body == {"n": 2} and not failed:
            failed.append(body)
            raise ValueError("not yet")
        done.put(body)


containers = [
    ServiceContainer(SentOrders, config={"AMQP_URI": SENDER}),
    ServiceContainer(ReceivedOrders, config={"AMQP_URI": RECEIVER}),
]
for container in containers:
    container.start()
with ClusterRpcProxy({"AMQP_URI": SENDER}, timeout=60) as services:
    for number in (1, 2):
        services.orders.send(TARGET, {"n": number})
        assert done.get(timeout=60) == {"n": number}
    reason = ""
    try:
        services.orders.send("99999", {"n": 3})
    except RemoteError as error:
        reason = str(error)
    assert "SEMQ-1201" in reason, reason
assert failed
for container in containers:
    container.stop()
