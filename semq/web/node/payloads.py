"""The payload of a document that is in the node's queues, or a range of its bytes, in chunks."""

from base64 import b64decode
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from semq.app import Client
from semq.errors import Unavailable
from semq.web.transport.bodies import chunks_of
from semq.web.transport.ranges import Extent

ANSWER_S = 60.0  # longest wait for one answer


def payload_chunks(
    client: Client, by: str, answer: Mapping[str, Any], begin: int = 0, extent: Extent | None = None
) -> tuple[Iterable[bytes] | AsyncIterator[bytes], int]:
    """Return the chunks of a payload, and the number of their bytes.

    ``by``: name of the visitor, for the ledger. ``answer``: the node's first answer to ``msg.body``; its bytes start at
    ``begin``, and further answers may be needed. ``extent``: the wanted bytes, by default all.
    """
    requested = extent or Extent(0, answer["size"])
    payload = b64decode(answer["body_base64"]) if begin == requested.begin else b""
    if len(payload) >= requested.size:
        return chunks_of(payload[: requested.size]), requested.size
    return _chunks_of_answers(client, by, answer["lk0"], requested, payload), requested.size


async def _chunks_of_answers(client: Client, by: str, lk0: str, extent: Extent, payload: bytes) -> AsyncIterator[bytes]:
    """Yield the bytes of ``extent``; ``payload``: the first of them. Raises Unavailable if the node returns too few.

    A failure ends the connection, so that the client gets fewer bytes than announced.
    """
    position = extent.begin
    while True:
        for chunk in chunks_of(payload):
            yield chunk
        position += len(payload)
        if position == extent.end:
            return
        arguments = {"id": lk0, "offset": position, "length": extent.end - position}
        answer = await client.request("msg.body", arguments, timeout_s=ANSWER_S, by=by)
        payload = b64decode(answer["body_base64"])
        if not payload:
            raise Unavailable("The node returned no further bytes of the body.", lk0=lk0, position=position)
