"""The asynchronous client of a node: send, receive, follow the outcome of a document, query the node."""

from collections.abc import Mapping
from typing import Any, Self, TypeVar

from semq.amqp.content import Properties
from semq.app.file_body import BlockBody
from semq.app.link import NodeConnection
from semq.app.pull import PulledDocuments, pull
from semq.app.requests import Requests
from semq.app.subscription import Subscription
from semq.app.values import Document, DocumentEvent, Fate, Sent, read_document, read_event
from semq.app.watch import Watch
from semq.clock import Clock, SystemClock
from semq.transport.client_channel import ClientChannel
from semq.umx_t.app_key import AppKey

SUBMIT = "semq"
INBOX = "semq.inbox"
EVENTS = "semq.events"
PREFETCH_EVENTS = 256
BODY_SPEED_MIN = 1 << 20  # bytes for which a ``BlockBody`` extends the time limit by a second

T = TypeVar("T")


class Client:
    """A client of one node.

    ``url`` is ``amqp://user:password@host:port``. ``patience_s`` is the default time limit of calls, and the time
    without a connection after which iterations raise NodeUnreachable. Calls raise ForeignBroker if another AMQP broker
    answers.
    """

    def __init__(self, url: str, *, patience_s: float = 60.0, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._link = NodeConnection(url, self._clock)
        self._requests = Requests(self._link)
        self._patience_s = patience_s
        self._watch = Watch(self._requests, lambda: self.events(), self._clock)
        self._subscriptions: list[Subscription[Any]] = []

    @property
    def address(self) -> str:
        return self._link.address

    @property
    def user(self) -> str:
        """The user of the node as whom this client logs in."""
        return self._link.user

    @property
    def node(self) -> str:
        """The node's announced name, for instance "1.10008"; empty before a connection or without an announcement."""
        return self._link.node

    async def connect(self, timeout_s: float | None = None, *, once: bool = False) -> Self:
        """Connect now, not with the first request. Raises NodeUnreachable, LoginRefused.

        ``once``: do not repeat a failed attempt.
        """
        await self._link.connection(self._link.deadline(self._limit(timeout_s)), once=once)
        return self

    async def close(self) -> None:
        """End all iterations and the connection; unacknowledged documents go back to their queue."""
        await self._watch.close()
        for subscription in self._subscriptions:
            await subscription.aclose()
        await self._link.close()

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Sending.

    async def send(
        self,
        target: str,
        body: bytes | BlockBody,
        *,
        app_key: AppKey | str = "",
        save_fwd: int = 3,
        ack2: bool | None = None,
        order_key: str = "",
        reliable: bool = True,
        encrypt: bool = False,
        fixed: bool = False,
        priority: int = 0,
        expires_at: int = 0,
        not_before: int = 0,
        content_type: str = "",
        content_encoding: str = "",
        headers: Mapping[str, Any] | None = None,
        token: str | None = None,
        timeout_s: float | None = None,
    ) -> Sent:
        """Send a document; return when the node has committed it.

        ``ack2`` requests a receipt; None requests one unless ``save_fwd`` is 1. ``expires_at`` and ``not_before``
        (earliest time of sending) are in milliseconds since 1970 UTC; 0: none. ``headers`` are the application's own. A
        ``BlockBody`` is read while it is sent; it extends the time limit by a second for each MiB. The reference
        describes the attributes.

        Raises RefusedByNode, LoginRefused, NodeUnreachable, NodeBusy, NoAnswer. After the last three the document may
        be sent again with the same ``token``: the node does not accept it twice. Only ``Sent`` shows a token that this
        method has made, so pass a token to be able to repeat a failed call.
        """
        # The import takes long.
        from semq.umx_t.attributes import submission_headers

        token = token or str(self._clock.uuid())
        arguments = {
            "app_key": app_key,
            "save_fwd": save_fwd,
            "ack2": ack2,
            "order_key": order_key,
            "reliable": reliable,
            "encrypt": encrypt,
            "fixed": fixed,
            "expires_at": expires_at,
            "not_before": not_before,
            "token": token,
        }
        properties = Properties(
            headers={**(headers or {}), **submission_headers(arguments)},
            content_type=content_type or None,
            content_encoding=content_encoding or None,
            priority=priority or None,
            delivery_mode=2,
        )
        limit_s = self._limit(timeout_s)
        if not isinstance(body, bytes):
            limit_s += len(body) / BODY_SPEED_MIN
        accepted = await self._requests.ask(SUBMIT, target, properties, body, limit_s)
        return Sent(
            accepted["lk0"],
            accepted.get("digest", ""),
            bool(accepted.get("repeated")),
            token,
            accepted.get("not_before", 0),
            accepted.get("members", 0),
        )

    # Receiving.

    def receive(
        self, user: str = "", *, prefetch: int = 16, idle_s: float | None = None, consumer_tag: str = ""
    ) -> Subscription[Document]:
        """Return the documents for this institution, or for its user ``user``.

        The result is an iterator and a context manager. The caller acknowledges, requeues or rejects each document; at
        most ``prefetch`` documents wait for this. The iteration ends when none has arrived for ``idle_s`` seconds
        (None: never). It leaves out documents that do not fit on the disk; they are delivered again later.
        """
        queue = f"{INBOX}.{user}" if user else INBOX

        async def prepare(channel: ClientChannel) -> str:
            return queue

        return self._track(
            Subscription(
                self._link,
                prepare,
                read_document,
                prefetch=prefetch,
                idle_s=idle_s,
                patience_s=self._patience_s,
                consumer_tag=consumer_tag,
            )
        )

    async def pull(self, user: str = "", *, at_most: int = 1, wait_s: float = 0.0) -> PulledDocuments:
        """Take up to ``at_most`` documents; wait up to ``wait_s`` for the first. They may be settled in any order.

        Raises RefusedByNode, NodeUnreachable, LoginRefused, and BodyNotKept if the first does not fit on the disk.
        """
        queue = f"{INBOX}.{user}" if user else INBOX
        return await pull(self._link, queue, at_most, wait_s, self._patience_s)

    # Outcomes.

    def events(
        self,
        keys: str = "#",
        *,
        queue: str | None = None,
        expires_s: int | None = None,
        prefetch: int = PREFETCH_EVENTS,
        idle_s: float | None = None,
        behind: int = 0,
        settles: bool = False,
    ) -> Subscription[DocumentEvent]:
        """Return events about documents that this institution has sent. ``keys`` is a pattern (* and #) for
        ``<event>.<target id>.<type>``.

        Without ``queue``, events are missed while the client is not connected. A named queue is durable; the node
        deletes it after ``expires_s`` seconds without a consumer (None: never). Each step of the iteration acknowledges
        all earlier events except the last ``behind``; with ``settles``, the caller acknowledges each (``ack``).
        """
        arguments = {} if expires_s is None else {"x-expires": expires_s * 1000}

        async def prepare(channel: ClientChannel) -> str:
            declared = await channel.declare_queue(
                queue or "",
                durable=queue is not None,
                exclusive=queue is None,
                auto_delete=queue is None,
                arguments=arguments,
            )
            await channel.bind_queue(declared.queue, EVENTS, keys)
            return declared.queue

        return self._track(
            Subscription(
                self._link,
                prepare,
                read_event,
                prefetch=prefetch,
                idle_s=idle_s,
                patience_s=self._patience_s,
                acknowledges=not settles,
                leaves_out=True,
                behind=behind,
            )
        )

    async def wait_for_delivery(self, name: str, timeout_s: float | None = None) -> Fate:
        """Wait until the receiving node has committed a document (SS_ACK2). ``name``: as for ``look``.

        Raises NotDelivered for any other outcome; NotYetKnown after the time limit; NoReceiptRequested if this node
        will never know the outcome (for instance class 1 or 2 without ``ack2``); RefusedByNode if the document is
        unknown; IncompleteAnswer, LoginRefused, NodeUnreachable, NodeBusy, NoAnswer.
        """
        return await self._watch.wait(name, self._limit(timeout_s))

    # Requests.

    async def look(self, name: str, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Return the node's record of a message, named by short name, locator, ``sql-NUMBER``, row number, AppKey, or
        the last part of the AppKey. ``cleaned`` in the record: the row was deleted, and the facts are from the ledger.

        Raises RefusedByNode (SEMQ-1207: unknown), IncompleteAnswer (a hub with several stores), NodeBusy,
        NodeUnreachable, LoginRefused, NoAnswer.
        """
        return dict(await self._requests.operate("msg.show", {"id": name}, self._limit(timeout_s)))

    async def request(
        self,
        operation: str,
        arguments: Mapping[str, object] | None = None,
        *,
        timeout_s: float | None = None,
        repeat: bool = True,
        by: str = "",
        asked: int = 0,
    ) -> Any:
        """Run an operation of ``semq.admin``, for instance ``node.status``, and return its result.

        ``by``: the person for whom a program asks; the node records the name with acts. ``asked``: the number of the
        line that this program has written into the node's audit log before the act. ``repeat``: send the request
        again if the connection is lost or a shared channel is closed; False: raise NodeUnreachable.

        Raises RefusedByNode, NodeBusy, IncompleteAnswer, NodeUnreachable, LoginRefused, NoAnswer, BodyNotKept.
        """
        return await self._requests.operate(
            operation, arguments or {}, self._limit(timeout_s), repeat=repeat, by=by, asked=asked
        )

    def _limit(self, timeout_s: float | None) -> float:
        return self._patience_s if timeout_s is None else timeout_s

    def _track(self, subscription: Subscription[T]) -> Subscription[T]:
        self._subscriptions = [tracked for tracked in self._subscriptions if not tracked.is_closed]
        self._subscriptions.append(subscription)
        return subscription


def is_node_of(client: Client, name: str) -> bool:
    """Whether the connected node has announced ``name``, or none; an empty name: any node."""
    return not name or client.node in ("", name)
