"""The carrier over AMQP 0-9-1: one connection and two queues for each instance.

| name                    | meaning                                                                              |
|-------------------------|--------------------------------------------------------------------------------------|
| ``semq.HUB.store.I.D``  | exclusive queue of a store; the broker refuses a second owner (405)                  |
| ``semq.HUB.front.LIFE`` | exclusive queue of one incarnation of an instance, bound to ``semq.HUB.all``         |
| ``semq.HUB.all``        | fanout exchange for messages to all instances, such as signs of life                 |

HUB is the hub's id from the control database; I and D are semq_id and semq_db_id of the store; LIFE is the hexadecimal
number of the incarnation. Nothing is durable; confirms and prefetch only control the flow.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

import structlog

from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError, NotFound, ResourceLocked
from semq.amqp.events import Delivered, Returned
from semq.answers.status import CarrierStatus
from semq.carrier.batch import open_batch, pack, seal
from semq.carrier.errors import ForeignBatch, StoreServedElsewhere
from semq.carrier.outgoing import WaitingMessages
from semq.clock import Clock
from semq.engine.hub.carrier import Message, StoreName
from semq.errors import SemqError
from semq.service.intake import Intake
from semq.store.work import Work
from semq.transport.client import ClientLink
from semq.transport.client_channel import ClientChannel
from semq.transport.dialer import DialConfig, dial
from semq.transport.errors import LinkLost
from semq.transport.turn import Turn
from semq.umx_t.retry import backoff

PREFETCH = 64  # delivered batches that are not acknowledged
UNCONFIRMED_MAX = 256  # published batches that are not confirmed
PAUSE_S_FIRST, PAUSE_S_MAX = 0.2, 5.0  # between attempts to connect
BIND_AGAIN_S = 5.0  # between declarations of the exchange
BIND_ATTEMPTS = 3  # to declare it and to bind to it, each time
EXPIRATION_MS = "15000"  # the broker drops batches that have waited this long, one inquiry interval
QUEUE_BYTES_MAX = 64 << 20  # size of a queue above which the broker drops its oldest batches
ALL = "all"  # the only destination that is an exchange, not a queue
TRANSIENT = 1  # delivery mode
log = structlog.get_logger("semq.carrier")


class CarrierReceiver(Protocol):
    """The receiver of the messages."""

    def is_new(self, life: int, number: int, *, to_front: bool) -> bool:
        """Whether the messages of a batch may be received: it is no repetition. ``to_front``: it came to the queue of
        this incarnation."""

    def receive(self, life: int, message: Message) -> None:
        """Process a message of incarnation ``life`` of another instance."""

    def note_returned(self, store: StoreName, message: Message) -> None:
        """Note a message that could not be delivered."""

    def note_ended(self, life: int) -> None:
        """Note that an incarnation has ended."""

    def note_joined(self) -> None:
        """Note that the carrier is joined."""

    def note_cut(self) -> None:
        """Note that the carrier is lost."""


class AmqpCarrier:
    """The carrier of one process. Implements ``semq.engine.hub.carrier.HubCarrier``."""

    def __init__(
        self,
        dial_configs: Sequence[DialConfig],
        hub_id: str,
        key: bytes,
        clock: Clock,
        turn: Turn,
        post: Callable[[Work, bool], None],
    ) -> None:
        self.is_joined = False
        self.address = ""  #: of the broker in use
        self.foreign = 0  #: unreadable batches and messages, and those of another hub
        self.batches_out = self.batches_in = 0
        self._dial_configs = list(dial_configs)
        self._prefix = f"semq.{hub_id}."
        self._key = key
        self._clock = clock
        self._turn = turn
        self._outgoing = WaitingMessages()
        self._intake: Intake[str, tuple[ClientChannel, Delivered]] = Intake(self._receive, post, turn)
        self._life = 0
        self._last_number = 0  #: of a batch
        self._store: StoreName = (0, 0)
        self._receiver: CarrierReceiver
        self._out: ClientChannel | None = None
        self._task: asyncio.Task[None] | None = None

    # --- life
    def begin(self, life: int, store: StoreName, receiver: CarrierReceiver) -> None:
        """Serve a store for a new engine, on a new connection. ``life``: incarnation of this instance."""
        former_task = self._abandon()
        self._life, self._store, self._receiver = life, store, receiver
        self._task = asyncio.get_running_loop().create_task(self._serve(former_task))

    async def stop(self) -> None:
        """Leave the carrier, so that another instance can declare the store's queue."""
        task = self._abandon()
        if task is not None:
            with suppress(asyncio.CancelledError):
                await task

    def _abandon(self) -> asyncio.Task[None] | None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        self.is_joined, self._out = False, None
        self._outgoing.clear()
        self._intake.forget()
        return task

    def status(self) -> CarrierStatus:
        return CarrierStatus(
            connected=self.is_joined,
            address=self.address,
            batches_out=self.batches_out,
            batches_in=self.batches_in,
            waiting_bytes=self._outgoing.waiting_bytes,
            dropped=self._outgoing.dropped,
            foreign=self.foreign,
        )

    # --- sending
    def to_store(self, store: StoreName, message: Message) -> None:
        if self.is_joined:
            self._put(store_queue(store), message)
        else:
            self._receiver.note_returned(store, message)

    def to_front(self, life: int, message: Message) -> None:
        self._put(front_queue(life), message)

    def to_all(self, message: Message) -> None:
        self._put(ALL, message)

    def _put(self, destination: str, message: Message) -> None:
        if self.is_joined:
            self._outgoing.put(destination, pack(message))
            self._turn.before_flush(self._publish)

    def _publish(self) -> None:
        out = self._out
        if out is None:
            return
        batches = self._outgoing.batches()
        while out.may_publish and out.unconfirmed < UNCONFIRMED_MAX and (batch := next(batches, None)) is not None:
            destination, packed = batch
            self._last_number += 1
            body = seal(self._key, destination, self._life, self._last_number, packed)
            header = ContentHeader.build(len(body), Properties(delivery_mode=TRANSIENT, expiration=EXPIRATION_MS))
            exchange = self._prefix + ALL if destination == ALL else ""
            key = "" if destination == ALL else self._prefix + destination
            out.publish(exchange, key, header, body, mandatory=destination != ALL, token=0)
            self.batches_out += 1

    # --- connection
    async def _serve(self, former_task: asyncio.Task[None] | None) -> None:
        if former_task is not None:
            await asyncio.wait([former_task])  # it holds the store's queue
        failures = 0
        while True:
            config = self._dial_configs[failures % len(self._dial_configs)]
            try:
                await self._use_connection(config)
                failures = 0
            except (SemqError, AmqpError, LinkLost) as error:
                failures += 1
                log.warning("carrier_away", address=f"{config.host}:{config.port}", error=str(error))
            finally:
                self._note_disconnected()
            await asyncio.sleep(backoff(max(failures, 1), PAUSE_S_FIRST, PAUSE_S_MAX, self._clock.random()))

    def _note_disconnected(self) -> None:
        self._out = None
        self._outgoing.clear()
        self._intake.forget()
        if self.is_joined:
            self.is_joined = False
            self._receiver.note_cut()

    async def _use_connection(self, config: DialConfig) -> None:
        link = await dial(config, self._clock, self._turn)
        try:
            incoming, out = await link.open_channel(), await link.open_channel()
            await incoming.qos(PREFETCH)
            await self._declare_all(incoming)
            for destination in (front_queue(self._life), store_queue(self._store)):
                await self._consume(incoming, destination)
            await out.confirm_select()
            out.on_ready = self._publish
            out.on_settled = lambda _: self._turn.before_flush(self._publish)
            out.on_returned = self._report_returned
            self._out, self.is_joined, self.address = out, True, f"{config.host}:{config.port}"
            log.info("carrier_joined", address=self.address)
            self._receiver.note_joined()
            incoming.on_closed = out.on_closed = lambda error: link.link.abort()
            ended = asyncio.ensure_future(link.wait_closed())
            while not (await asyncio.wait([ended], timeout=BIND_AGAIN_S))[0]:
                await self._bind_again(link)
            log.warning("carrier_lost", address=self.address, error=str(ended.result()))
        finally:
            await link.close(timeout_s=1.0)

    async def _bind_again(self, link: ClientLink) -> None:
        """Declare the exchange, which somebody may have removed, and bind to it, on a channel of its own.

        Between both it may end again, with the queue of another instance, the only one that was bound to it. The broker
        then closes this channel, and the others stay.
        """
        for _ in range(BIND_ATTEMPTS):
            channel = await link.open_channel()
            with suppress(NotFound):
                await self._declare_all(channel)
                await self._bind_to_all(channel)
                channel.close()
                return

    async def _declare_all(self, channel: ClientChannel) -> None:
        await channel.declare_exchange(self._prefix + ALL, "fanout", auto_delete=True)

    async def _bind_to_all(self, channel: ClientChannel) -> None:
        await channel.bind_queue(self._prefix + front_queue(self._life), self._prefix + ALL)

    async def _consume(self, channel: ClientChannel, destination: str) -> None:
        queue = self._prefix + destination
        try:
            await channel.declare_queue(
                queue, durable=False, exclusive=True, arguments={"x-max-length-bytes": QUEUE_BYTES_MAX}
            )
        except ResourceLocked as error:
            raise StoreServedElsewhere(queue=queue) from error
        if destination == front_queue(self._life):
            await self._bind_to_all(channel)
        await channel.consume(queue, partial(self._delivered, channel, destination))

    # --- receiving
    def _delivered(self, channel: ClientChannel, destination: str, deliveries: list[Delivered]) -> None:
        for delivered in deliveries:
            self._intake.put(destination, (channel, delivered), len(delivered.body))

    def _receive(self, destination: str, deliveries: list[tuple[ClientChannel, Delivered]]) -> None:
        for channel, delivered in deliveries:
            self._receive_batch(ALL if delivered.exchange else destination, delivered)
            channel.ack(delivered.delivery_tag)

    def _receive_batch(self, destination: str, delivered: Delivered) -> None:
        self.batches_in += 1
        try:
            if delivered.header.body_size > len(delivered.body):
                raise ForeignBatch("The batch is too large.", queue=destination, size=delivered.header.body_size)
            batch = open_batch(self._key, destination, delivered.body, self._note_foreign)
        except ForeignBatch as error:
            self._note_foreign(error)
            return
        to_front = destination == front_queue(self._life)
        if batch.life != self._life and self._receiver.is_new(batch.life, batch.number, to_front=to_front):
            for message in batch.messages:
                self._receiver.receive(batch.life, message)

    def _note_foreign(self, error: SemqError) -> None:
        self.foreign += 1
        if self.foreign & (self.foreign - 1) == 0:  # the 1st, 2nd, 4th, 8th …
            log.error("carrier_foreign", error=str(error), count=self.foreign)

    def _report_returned(self, returned: Returned) -> None:
        """Report a returned batch: no instance serves the store, or the incarnation has ended."""
        destination = returned.routing_key.removeprefix(self._prefix)
        kind, _, name = destination.partition(".")
        try:
            if kind == "front":
                self._receiver.note_ended(_number(name, 16))
            else:
                self._return_messages(name, destination, returned.body)
        except ForeignBatch as error:
            self._note_foreign(error)

    def _return_messages(self, name: str, destination: str, body: bytes) -> None:
        semq_id, _, semq_db_id = name.partition(".")
        store = _number(semq_id), _number(semq_db_id)
        for message in open_batch(self._key, destination, body, self._note_foreign).messages:
            self._receiver.note_returned(store, message)


def _number(text: str, base: int = 10) -> int:
    """Read a number of a routing key. Raises ForeignBatch."""
    try:
        return int(text, base)
    except ValueError as error:
        raise ForeignBatch("The routing key does not belong to this hub.", part=text[:40]) from error


def store_queue(store: StoreName) -> str:
    """Return the name of a store's queue, without the hub's prefix."""
    return f"store.{store[0]}.{store[1]}"


def front_queue(life: int) -> str:
    """Return the name of an incarnation's queue, without the hub's prefix."""
    return f"front.{life:x}"
