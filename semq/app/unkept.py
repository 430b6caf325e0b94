"""Documents whose bodies could not be written to a temporary file: held for a while, then given back to the node.

The node counts every delivery, and parks a document after 20 of them. Without the pause, a full disk would park each
large document within seconds. Meanwhile the documents behind it are delivered, as far as the node's limit of
unacknowledged bytes permits (`amqp.max_unacked_bytes`).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from semq.amqp.events import Delivered
from semq.app.errors import BodyNotKept
from semq.transport.spool import UnkeptBody

HELD_S = 60.0  # until the document is given back

log = logging.getLogger(__name__)


def is_unkept(delivered: Delivered) -> bool:
    """Whether the body of a delivery was dropped."""
    return isinstance(delivered.body, UnkeptBody)


def hold(delivered: Delivered, give_back: Callable[[], None]) -> BodyNotKept:
    """Call ``give_back`` after HELD_S; return the error of the document."""
    body: Any = delivered.body
    error = BodyNotKept(
        document=delivered.header.message_id or "", bytes=body.size, fault=body.fault, retry_after_s=HELD_S
    )
    log.error("%s", error.advice())
    asyncio.get_running_loop().call_later(HELD_S, give_back)
    return error
