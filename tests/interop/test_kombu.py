"""kombu, on which Celery is built, as an application of two nodes: it sends documents and receives them."""

import asyncio
import importlib
from typing import Any

from local_node.node import LocalNode
from tests.service.inprocess import InProcess, linked
from tests.waiting import until

kombu: Any = importlib.import_module("kombu")  # a package without types
NUMBERS = list(range(10))


def send(url: str) -> None:
    exchange = kombu.Exchange("semq", no_declare=True)
    with kombu.Connection(url, transport_options={"confirm_publish": True}) as connection:
        producer = connection.Producer(serializer="json", exchange=exchange)
        for number in NUMBERS:
            producer.publish({"n": number}, routing_key="56001", headers={"n": number}, retry=True)


def receive(url: str) -> list[tuple[Any, int, str]]:
    """Return body, own header and source of each document; the first is returned once before."""
    received: list[tuple[Any, int, str]] = []

    def on_message(body: Any, message: Any) -> None:
        if not (received or message.delivery_info["redelivered"]):
            message.requeue()
            return
        received.append((body, message.headers["n"], message.headers["@Source"]))
        message.ack()

    with kombu.Connection(url) as connection, connection.channel() as channel:
        inbox = kombu.Queue("semq.inbox", no_declare=True)
        with kombu.Consumer(channel, [inbox], callbacks=[on_message], auto_declare=False, prefetch_count=1):
            while len(received) < len(NUMBERS):
                connection.drain_events(timeout=30)
    return received


def url_of(node: LocalNode) -> str:
    return f"amqp://guest:guest@127.0.0.1:{node.port}"


async def test_kombu_sends_documents_and_receives_them(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    a, b = [await inprocess.secure_local(name, hub) for name in ("10008", "56001")]
    await linked(a, b)
    await until(lambda: a.engine.partners.online.get("1.56001"))
    await asyncio.to_thread(send, url_of(a))
    received = await asyncio.to_thread(receive, url_of(b))
    assert sorted(body["n"] for body, _, _ in received) == NUMBERS
    assert all(body == {"n": number} and source == "1.10008" for body, number, source in received)
