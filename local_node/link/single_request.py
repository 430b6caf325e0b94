"""One request of a node to its hub, or to a partner, over a separate connection that ends with the answer.

The connection uses the virtual host of enrolment and is independent of the link.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from local_node.errors import RefusedByPeer
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError, Broken, ConnectionForced, InternalError
from semq.clock import Clock
from semq.errors import Unavailable
from semq.transport.dialer import DialConfig, dial
from semq.transport.errors import LinkLost
from semq.transport.turn import Turn

VIRTUAL_HOST = "enroll"
PATIENCE_S = 30.0
CANNOT_ANSWER = InternalError, ConnectionForced  # sent by a peer that stops or has failed; not a refusal


async def request(
    config: DialConfig,
    clock: Clock,
    exchange: str,
    operation: str,
    arguments: Mapping[str, object],
    peer_name: str = "The hub",
) -> Mapping[str, Any]:
    """Send the request and return the result. ``peer_name``: the node that is asked, for texts of errors.

    Raises DialFailed, RefusedByPeer, Unavailable, and the errors of ``config.check``.
    """
    try:
        link = await dial(config, clock, Turn())
    except CANNOT_ANSWER as error:
        raise Unavailable(f"{peer_name} could not answer.", fault=error.text) from error
    except AmqpError as error:
        raise RefusedByPeer(f"{peer_name} refused the login.", fault=error.text) from error
    try:
        async with asyncio.timeout(PATIENCE_S):
            channel = await link.open_channel()
            queue = (await channel.declare_queue(exclusive=True)).queue
            answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            await channel.consume(queue, lambda batch: _accept(answer, bytes(batch[0].body)), no_ack=True)
            body = msgspec.json.encode(arguments)
            header = ContentHeader.build(len(body), Properties(content_type="application/json", reply_to=queue))
            channel.publish(exchange, operation, header, body)
            channel.on_closed = lambda error: _fail(answer, error)  # from here on the answer is awaited
            reply = msgspec.json.decode(await answer, type=dict[str, Any])
    except CANNOT_ANSWER as error:
        raise Unavailable(f"{peer_name} could not answer.", fault=error.text) from error
    except (TimeoutError, LinkLost, Broken, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unavailable(f"{peer_name} did not answer.", host=config.host, cause=repr(error)) from error
    except AmqpError as error:
        raise RefusedByPeer(
            f"{peer_name} does not accept this request.", operation=operation, fault=error.text
        ) from error
    finally:
        await link.close(1.0)
    if not reply.get("ok"):
        fault = reply.get("error") or {}
        text = f"{peer_name} refused: {fault.get('code')} {fault.get('text')}"
        raise RefusedByPeer(text, operation=operation, reason=str(fault.get("code")))
    result = reply.get("result")
    return result if isinstance(result, dict) else {}


def _accept(answer: "asyncio.Future[bytes]", body: bytes) -> None:
    if not answer.done():
        answer.set_result(body)


def _fail(answer: "asyncio.Future[bytes]", error: Exception | None) -> None:
    if not answer.done():
        answer.set_exception(error or LinkLost("the channel was closed"))
