"""One request over a connection of its own: a peer that ends the connection without an answer has refused nothing."""

from collections.abc import Callable
from functools import partial

import pytest

from local_node.link.single_request import VIRTUAL_HOST, request
from platform_node.node import HubNode
from semq.amqp.errors import InternalError
from semq.broker.session import BrokerSession
from semq.clock import SystemClock
from semq.errors import Unavailable
from semq.service.admin import RequestExchange
from semq.transport.dialer import DialConfig
from tests.service.inprocess import InProcess

Ending = Callable[[BrokerSession], None]
ENDINGS: tuple[Ending, ...] = (
    lambda session: session.force_close("the node stops"),
    lambda session: session.close(InternalError("the store did not accept the change")),
    lambda session: session.link.abort(),
)


def end_sessions(hub: HubNode, end: Ending, *_: object) -> None:
    for session in list(hub.server.sessions):
        end(session)


async def ask_in_vain(hub: HubNode) -> None:
    config = DialConfig("127.0.0.1", hub.port, VIRTUAL_HOST, "1.10008", "pass-10008")
    with pytest.raises(Unavailable):
        await request(config, SystemClock(), "semq.ask", "trace", {})


async def test_a_peer_that_ends_the_connection_during_the_login_is_unavailable(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await inprocess.hub()
    for end in ENDINGS:

        async def authenticate(*_: object, end: Ending = end) -> str | None:
            end_sessions(hub, end)
            return "1.10008"

        monkeypatch.setattr(hub.server.authenticator, "authenticate", authenticate)
        await ask_in_vain(hub)


async def test_a_peer_that_ends_the_connection_before_its_answer_is_unavailable(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await inprocess.hub()
    for end in ENDINGS:
        monkeypatch.setattr(RequestExchange, "publish", partial(end_sessions, hub, end))
        await ask_in_vain(hub)
