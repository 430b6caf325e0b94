"""pika, aio-pika, py-amqp and amqpstorm: ``CLIENT send URL EXCHANGE KEY < values`` or ``CLIENT receive URL QUEUE``.

``send`` publishes a message for each line of the input (name, kind, value), with the value in header ``v``; if the kind
is "property", in the property that the value names (name, kind, value). ``receive`` prints a line for each message: a
JSON array of the name, and of the error or the value that the client showed. ``CLIENT properties URL QUEUE`` does the
same with messages that are named after a property, and prints its value.
"""

import asyncio
import decimal
import importlib
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

CLIENT, MODE, URL, PLACE, *KEY = sys.argv[1:]


def built(kind: str, value: Any) -> Any:
    match kind:
        case "int":
            return int(value)
        case "float":
            return float(value)
        case "bytes" | "octets":  # octets: bytes that are meant as a text
            return bytes.fromhex(value)
        case "date":
            return datetime.fromtimestamp(int(value), UTC)
        case "decimal":
            return decimal.Decimal(value)
        case "array":
            return [built(*each) for each in value]
        case "table":
            return {name: built(*each) for name, each in value.items()}
    return value


def shown(value: Any) -> list[Any]:
    match value:
        case None:
            return ["null"]
        case bool():
            return ["bool", str(value).lower()]
        case int():
            return ["int", str(value)]
        case float():
            return ["float", repr(value)]
        case str():
            return ["text", value] if value.isprintable() else ["text", repr(value)]
        case bytes() | bytearray() | memoryview():
            return ["bytes", bytes(value).hex()]
        case datetime():
            at = value if value.tzinfo else value.replace(tzinfo=UTC)
            return ["date", str(int(at.timestamp()))]
        case decimal.Decimal():
            return ["decimal", str(value)]
        case list() | tuple():
            return ["array", [shown(each) for each in value]]
        case dict():
            return ["table", {str(name): shown(each) for name, each in value.items()}]
    return ["other", type(value).__name__]


def message_of(kind: str, value: Any) -> dict[str, Any]:
    """Return the properties of a message."""
    if kind == "property":
        name, *typed = value
        return {name: built(*typed)}
    return {"headers": {"v": built(kind, value)}}


def say(name: str, what: Any) -> None:
    print(json.dumps([name, what]), flush=True)


def send_all(publish: Callable[[str, dict[str, Any]], Any]) -> None:
    for line in sys.stdin:
        name, kind, value = json.loads(line)
        try:
            publish(name, message_of(kind, value))
            say(name, "")
        except Exception as error:
            say(name, type(error).__name__)
            raise SystemExit(3) from error  # the connection may be unusable: the caller starts again


def seconds(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the properties with the time as a number, where the client wants one."""
    at = properties.get("timestamp")
    return properties if at is None else {"timestamp": int(at.timestamp())}


def renamed(properties: dict[str, Any], before: str, after: str) -> dict[str, Any]:
    """Return the properties with the name that a client has for one of them."""
    return {after if name == before else name: value for name, value in properties.items()}


def name_of(body: Any) -> str:
    return bytes(body if not isinstance(body, str) else body.encode()).decode()


def with_pika() -> None:
    pika: Any = importlib.import_module("pika")

    channel = pika.BlockingConnection(pika.URLParameters(URL)).channel()
    if MODE == "send":
        channel.confirm_delivery()
        send_all(
            lambda name, properties: channel.basic_publish(
                PLACE, KEY[0], name, pika.BasicProperties(**seconds(properties))
            )
        )
    while MODE != "send":
        method, received, body = channel.basic_get(PLACE, auto_ack=True)
        if method is None:
            break
        name = name_of(body)
        say(name, shown(received.headers["v"] if MODE == "receive" else getattr(received, name)))


async def with_aio_pika() -> None:
    aio_pika: Any = importlib.import_module("aio_pika")

    async with await aio_pika.connect(URL) as connection:
        channel = await connection.channel()
        if MODE == "send":
            exchange = await channel.get_exchange(PLACE, ensure=False) if PLACE else channel.default_exchange
            for line in sys.stdin:
                name, kind, value = json.loads(line)
                try:
                    properties = message_of(kind, value)
                    if "expiration" in properties:
                        properties["expiration"] = int(properties["expiration"]) / 1000  # seconds
                    message = aio_pika.Message(name.encode(), **properties)
                    await exchange.publish(message, KEY[0])
                    say(name, "")
                except Exception as error:
                    say(name, type(error).__name__)
                    raise SystemExit(3) from error
            return
        queue = await channel.get_queue(PLACE, ensure=False)
        while message := await queue.get(no_ack=True, fail=False):
            name = name_of(message.body)
            say(name, shown(message.headers["v"] if MODE == "receive" else getattr(message, name)))


def with_amqp() -> None:
    amqp: Any = importlib.import_module("amqp")

    parts = urlsplit(URL)
    connection = amqp.Connection(f"{parts.hostname}:{parts.port}", parts.username, parts.password)
    connection.connect()
    channel = connection.channel()
    if MODE == "send":
        channel.confirm_select()
        send_all(
            lambda name, properties: channel.basic_publish_confirm(
                amqp.Message(name.encode(), **renamed(seconds(properties), "headers", "application_headers")),
                PLACE,
                KEY[0],
            )
        )
    while MODE != "send" and (message := channel.basic_get(PLACE, no_ack=True)):
        name = name_of(message.body)
        say(name, shown(message.headers["v"] if MODE == "receive" else message.properties.get(name)))


def with_amqpstorm() -> None:
    amqpstorm: Any = importlib.import_module("amqpstorm")

    parts = urlsplit(URL)
    with amqpstorm.Connection(parts.hostname, parts.username, parts.password, port=parts.port) as connection:
        channel = connection.channel()
        if MODE == "send":
            channel.confirm_deliveries()
            send_all(
                lambda name, properties: channel.basic.publish(
                    name.encode(), KEY[0], PLACE, properties=renamed(properties, "type", "message_type")
                )
            )
        while MODE != "send" and (message := channel.basic.get(PLACE, no_ack=True, auto_decode=False)):
            name, found = name_of(message._body), message._properties
            say(
                name,
                shown(found["headers"]["v"] if MODE == "receive" else renamed(found, "message_type", "type")[name]),
            )


RUN: dict[str, Callable[[], Any]] = {
    "pika": with_pika,
    "aio-pika": lambda: asyncio.run(with_aio_pika()),
    "py-amqp": with_amqp,
    "amqpstorm": with_amqpstorm,
}
RUN[CLIENT]()
