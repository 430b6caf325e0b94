"""The payload of a document that is in the node's queues, in chunks; of a document in pieces, part by part."""

from base64 import b64decode
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from semq.app import Client
from semq.web.transport.bodies import chunks_of

PART_S = 60.0  # longest wait for one part


def payload_chunks(
    client: Client, by: str, found: Mapping[str, Any], payload: bytes
) -> tuple[Iterable[bytes] | AsyncIterator[bytes], int | None]:
    """Return the chunks of a payload, and its size if it has one part only.

    ``found`` is the node's answer to ``msg.body`` for part 0, and ``payload`` that part; ``by`` is who reads it.
    """
    if found["parts"] == 1:
        return chunks_of(payload), len(payload)
    return _in_parts(client, by, found, payload), None


async def _in_parts(client: Client, by: str, found: Mapping[str, Any], payload: bytes) -> AsyncIterator[bytes]:
    """Yield a payload that the node reads in parts. A failure ends the connection, so that the answer is incomplete."""
    part = 0
    while True:
        for chunk in chunks_of(payload):
            yield chunk
        part += 1
        if part == found["parts"]:
            return
        answer = await client.request("msg.body", {"id": found["lk0"], "part": part}, timeout_s=PART_S, by=by)
        payload = b64decode(answer["body_base64"])
