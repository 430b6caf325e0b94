"""The player: performs a script on one broker, step by step, and records the answers in one line per step.

Each step waits for an answer: the reply of a method, the confirm of a publish in confirm mode. Events without a request
(deliveries, returns, cancels) are recorded with the next Quiet, Pause or HangUp, because the exact time may differ.
"""

import re
import select
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from semq.amqp import events as e
from semq.amqp import methods as m
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import LocalMisuse
from tests.broker.raw import RawClient
from tests.differential.bare import RawBytes

PATIENCE_S = 10.0  # longest wait for a required answer
QUIET_S = 0.25  # without events for this time, all have arrived
# Header, or field of a header, that transcripts leave out | reason
IGNORED = {
    "x-delivery-count": "a node counts on every queue, RabbitMQ on quorum queues only",
    "time": "the time of an x-death, taken from the clock",
}
BARRIER = "nobody"  # consumer tag that no script uses; its cancel-ok shows that the steps before it are processed
UNREQUESTED = ("basic.deliver", "basic.return", "basic.cancel ")  # the space excludes basic.cancel-ok
GENERATED = re.compile(r"amq\.(gen|ctag|rabbitmq\.reply-to\.g\dh|rabbitmq\.reply-to)[-.][\w=+/.-]+")
ANSWERS: dict[type[m.Method], type[m.Method]] = {
    kind: answer
    for kind in m.METHODS.values()
    if (answer := getattr(m, f"{kind.__name__}Ok", None)) is not None and kind is not m.BasicGet
}


class Publish(NamedTuple):
    exchange: str
    routing_key: str
    body: bytes = b"x"
    properties: Properties = Properties()
    mandatory: bool = False
    immediate: bool = False


class Quiet(NamedTuple):
    """Wait until no more events arrive."""


class Pause(NamedTuple):
    seconds: float


class HangUp(NamedTuple):
    """Close the socket without connection.close."""


class CloseChannel(NamedTuple):
    """Send channel.close."""


class On(NamedTuple):
    """A step for a client and channel; other steps are for channel 1 of the first client."""

    client: int
    channel: int
    step: "Step"


Step = m.Method | Publish | Quiet | Pause | HangUp | CloseChannel | RawBytes
Script = Sequence["Step | On"]


class PlayedConnection:
    def __init__(self, port: int) -> None:
        self.raw = RawClient(port).log_in(0)
        self.raw.events.clear()
        self.open: set[int] = set()  #: numbers of open channels
        self.confirming: dict[int, int] = {}  #: number of publishes, by channel in confirm mode
        self.settled: dict[int, set[int]] = {}  #: numbers of confirmed or refused publishes, by channel
        self.passed: set[str] = set()  #: consumer tags of answered barriers
        self.is_over = False  #: the broker has ended the connection

    def close(self) -> None:
        """Close in an orderly way, so that exclusive objects are released."""
        if not self.is_over:
            with suppress(ConnectionError, TimeoutError, LocalMisuse):
                self.raw.machine.close()
                self.raw.flush()
                self.raw.events.clear()
                self.raw.wait_closed()
        self.raw.socket.close()


class Player:
    def __init__(self, port: int) -> None:
        self._port = port
        self._clients: dict[int, PlayedConnection] = {}
        self._answers: dict[tuple[int, int], list[str]] = {}  #: lines of the present step, by client and channel
        self._unrequested: dict[tuple[int, int], list[str]] = {}  #: events without a request, likewise
        self._placeholders: dict[str, str] = {}  #: placeholders by generated name

    def play(self, script: Script, *, is_quick: bool = False) -> list[str]:
        """Return the transcript. ``is_quick``: do not wait for unrequested events at the end."""
        lines = []
        try:
            for item in script if is_quick else [*script, Quiet()]:
                on = item if isinstance(item, On) else On(1, 1, item)
                self._answers = {}
                self._perform(on)
                if isinstance(on.step, Quiet | Pause | HangUp):
                    for place, unrequested in self._unrequested.items():
                        self._answers.setdefault(place, []).extend(unrequested)
                    self._unrequested.clear()
                lines.append(
                    f"{on.client}.{on.channel} {self._with_placeholders(_brief(on.step))} -> {self._answers_text()}"
                )
        finally:
            for client in self._clients.values():
                client.close()
        return lines

    # Steps.

    def _perform(self, on: On) -> None:
        step = on.step
        if isinstance(step, Pause):
            self._listen(time.monotonic() + step.seconds, lambda: False)
        elif isinstance(step, Quiet):
            self._until_quiet()
        elif isinstance(step, RawBytes):
            self._answers[on.client, on.channel] = step.perform(self._port)
        elif isinstance(step, HangUp):
            self._client(on.client).raw.socket.close()
            del self._clients[on.client]
            self._until_quiet()
        else:
            try:
                self._act(self._ready(on), on, step)
            except LocalMisuse:  # a late error of an earlier step has closed the channel
                self._act(self._ready(on), on, step)

    def _client(self, number: int) -> PlayedConnection:
        if number not in self._clients:
            self._clients[number] = PlayedConnection(self._port)
        return self._clients[number]

    def _ready(self, on: On) -> PlayedConnection:
        self._listen(time.monotonic(), lambda: False)
        client = self._client(on.client)
        if client.is_over:  # a hard error
            client.raw.socket.close()
            del self._clients[on.client]
            client = self._client(on.client)
        if on.channel not in client.open:
            client.raw.machine.open_channel(on.channel)
            client.raw.flush()
            client.confirming.pop(on.channel, None)
            client.settled.pop(on.channel, None)
            self._await(lambda: on.channel in client.open)
        return client

    def _act(self, client: PlayedConnection, on: On, step: Any) -> None:
        machine, number = client.raw.machine, on.channel
        match step:
            case Publish():
                header = ContentHeader.build(len(step.body), step.properties)
                flags = {"mandatory": step.mandatory, "immediate": step.immediate}
                machine.publish(number, step.exchange, step.routing_key, header, step.body, **flags)
            case CloseChannel():
                machine.close_channel(number)
            case m.BasicAck():
                machine.ack(number, step.delivery_tag, step.multiple)
            case m.BasicNack():
                machine.nack(number, step.delivery_tag, step.multiple, step.requeue)
            case m.BasicReject():
                machine.reject(number, step.delivery_tag, step.requeue)
            case _:
                machine.send(number, step)
        client.raw.flush()
        if isinstance(step, m.ConfirmSelect):
            client.confirming.setdefault(number, 0)
            client.settled.setdefault(number, set())
        self._await_outcome(client, number, step)

    def _await_outcome(self, client: PlayedConnection, number: int, step: Any) -> None:
        """Wait until the broker has processed a step, or has closed the channel."""

        def is_over() -> bool:
            return client.is_over or number not in client.open

        answers = self._answers
        place = (self._number_of(client), number)
        if isinstance(step, Publish) and number in client.confirming:
            client.confirming[number] += 1
            publish_number = client.confirming[number]
            self._await(lambda: publish_number in client.settled[number] or is_over())
        elif isinstance(step, Publish | m.BasicAck | m.BasicNack | m.BasicReject):
            client.raw.send(m.BasicCancel(BARRIER), number)
            self._await(lambda: BARRIER in client.passed or is_over())
            client.passed.discard(BARRIER)
        elif isinstance(step, m.BasicGet):
            self._await(lambda: any(line.startswith("basic.get") for line in answers.get(place, ())) or is_over())
        elif isinstance(step, CloseChannel):
            self._await(is_over)
        elif type(step) in ANSWERS and not getattr(step, "no_wait", False):
            answer = ANSWERS[type(step)].row.name
            self._await(lambda: any(line.startswith(answer) for line in answers.get(place, ())) or is_over())

    def _number_of(self, client: PlayedConnection) -> int:
        return next(number for number, known_client in self._clients.items() if known_client is client)

    # Events.

    def _await(self, holds: Any) -> None:
        """Wait until ``holds()`` is true; note "nothing" as an answer after PATIENCE_S."""
        if not self._listen(time.monotonic() + PATIENCE_S, holds):
            self._answers.setdefault((0, 0), []).append("nothing")

    def _until_quiet(self) -> None:
        while self._listen(time.monotonic() + QUIET_S, lambda: False, any_event=True):
            pass

    def _listen(self, deadline: float, holds: Any, *, any_event: bool = False) -> bool:
        """Record events until ``holds()``, or with ``any_event`` until bytes arrive. Return False at the deadline."""
        while not holds():
            sockets = {client.raw.socket: client for client in self._clients.values() if not client.is_over}
            readable, _, _ = select.select(list(sockets), [], [], max(0.0, deadline - time.monotonic()))
            for socket in readable:
                self._read(sockets[socket])
            if readable and any_event:
                return True
            if not readable and time.monotonic() >= deadline:
                return False
        return True

    def _read(self, client: PlayedConnection) -> None:
        try:
            client.raw.read()
        except ConnectionError:
            client.is_over = True
        events, client.raw.events[:] = client.raw.events[:], []
        for event in events:
            self._note(client, event)

    def _note(self, client: PlayedConnection, event: e.ConnectionEvent) -> None:
        number = getattr(event, "channel", 0)
        match event:
            case e.ChannelOpened():
                client.open.add(number)
                return
            case e.ChannelReleased():
                client.open.discard(number)
                return
            case e.ChannelClosed(error=error):
                client.open.discard(number)
                line = f"channel closed: {_error(error)}"
            case e.ConnectionClosed(error=error):
                client.is_over = True
                line = f"connection closed: {_error(error)}"
            case e.Acked() | e.Nacked():
                self._settle(client, event)
                return
            case e.MethodReceived(method=m.BasicCancelOk(consumer_tag=tag)) if tag == BARRIER:
                client.passed.add(tag)
                return
            case e.MethodReceived(method=method):
                line = _brief(method)
            case _:
                line = _content(event)
        notes = self._unrequested if line.startswith(UNREQUESTED) else self._answers
        notes.setdefault((self._number_of(client), number), []).append(self._with_placeholders(line))

    def _settle(self, client: PlayedConnection, event: "e.Acked | e.Nacked") -> None:
        """Note the outcome of each publish, because brokers may confirm singly or together."""
        number, settled = event.channel, client.settled[event.channel]
        first = event.delivery_tag if not event.multiple else 1
        new = set(range(first, event.delivery_tag + 1)) - settled
        settled |= new
        word = "confirmed" if isinstance(event, e.Acked) else "refused"
        self._answers.setdefault((self._number_of(client), number), []).extend(f"{word} {tag}" for tag in sorted(new))

    # Transcript.

    def _answers_text(self) -> str:
        return " | ".join(
            f"{client}.{channel}: {'; '.join(lines)}" for (client, channel), lines in sorted(self._answers.items())
        )

    def _with_placeholders(self, text: str) -> str:
        def placeholder(name: re.Match[str]) -> str:
            kind = name[1].split(".")[0]
            return self._placeholders.setdefault(name[0], f"<{kind} {len(self._placeholders) + 1}>")

        return GENERATED.sub(placeholder, text)


def _error(error: Any) -> str:
    if error is None:
        return "in order"
    return f"{error.reply_code} {error.text!r} {error.class_id}.{error.method_id}"


def _brief(step: Any) -> str:
    """Return a line for a step, with the arguments that differ from the defaults."""
    if isinstance(step, m.Method):
        defaults = _defaults(type(step))
        values = [(name, getattr(step, name)) for name in step.__struct_fields__]
        fields = [
            f"{name}={_value(value)}" for name, value in values if defaults is None or value != getattr(defaults, name)
        ]
        return " ".join([step.row.name, *fields])
    if isinstance(step, Publish):
        flags = [name for name in ("mandatory", "immediate") if getattr(step, name)]
        return " ".join(["publish", repr(step.exchange), repr(step.routing_key), _body(step.body), *flags])
    return repr(step)


def _defaults(kind: type[m.Method]) -> m.Method | None:
    """Return a method with default arguments; None if an argument has no default."""
    try:
        return kind()
    except TypeError:
        return None


def _content(event: Any) -> str:
    names: dict[type, str] = {e.Delivered: "basic.deliver", e.Returned: "basic.return", e.Got: "basic.get-ok"}
    name = names[type(event)]
    facts = [
        f"{field}={getattr(event, field)!r}"
        for field in event.__struct_fields__
        if field not in ("channel", "header", "body")
    ]
    return " ".join([name, *facts, _properties(event.header.properties), _body(bytes(event.body))])


def _properties(properties: Properties) -> str:
    present = [
        (name, value) for name in properties.__struct_fields__ if (value := getattr(properties, name)) is not None
    ]
    texts = [(name, _value(value)) for name, value in present]
    return "{" + ", ".join(f"{name}={value}" for name, value in texts if value != "{}") + "}"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        fields = sorted((name, field) for name, field in value.items() if name not in IGNORED)
        return "{" + ", ".join(f"{name}: {_value(field)}" for name, field in fields) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)


def _body(body: bytes) -> str:
    return repr(body) if len(body) <= 20 else f"{len(body)} bytes"
