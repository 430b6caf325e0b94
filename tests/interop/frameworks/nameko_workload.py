# mypy: ignore-errors
# The framework is installed only where ``__main__`` runs this program.
"""nameko: calls, a remote error, an event, a timer."""

import eventlet

eventlet.monkey_patch()

import queue  # noqa: E402
import sys  # noqa: E402

from nameko.containers import ServiceContainer  # noqa: E402
from nameko.events import EventDispatcher, event_handler  # noqa: E402
from nameko.exceptions import RemoteError  # noqa: E402
from nameko.rpc import rpc  # noqa: E402
from nameko.standalone.rpc import ClusterRpcProxy  # noqa: E402
from nameko.timer import timer  # noqa: E402

CONFIG = {"AMQP_URI": sys.argv[1]}
events: "queue.Queue[object]" = queue.Queue()
ticks: "queue.Queue[object]" = queue.Queue()


class Calculator:
    name = "calculator"
    dispatch = EventDispatcher()

    @rpc
    def add(self, x, y):
        self.dispatch("added", {"sum": x + y})
        return x + y

    @rpc
    def fail(self):
        raise ValueError("no")


class SumListener:
    name = "listener"

    @event_handler("calculator", "added")
    def on_added(self, payload):
        events.put(payload)

    @timer(interval=0.2)
    def tick(self):
        ticks.put("tick")


containers = [ServiceContainer(service, config=CONFIG) for service in (Calculator, SumListener)]
for container in containers:
    container.start()
with ClusterRpcProxy(CONFIG, timeout=60) as services:
    calls = [services.calculator.add.call_async(number, 1) for number in range(20)]
    assert [call.result() for call in calls] == list(range(1, 21))
    assert sorted(events.get(timeout=60)["sum"] for _ in range(20)) == list(range(1, 21))
    reason = ""
    try:
        services.calculator.fail()
    except RemoteError as error:
        reason = error.exc_type
    assert reason == "ValueError"
    assert ticks.get(timeout=60) == "tick"
for container in containers:
    container.stop()
