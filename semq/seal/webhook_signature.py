"""The signature of a request to a webhook, as specified by Standard Webhooks 1.0 (symmetric, ``v1``).

``ID.TIMESTAMP.BODY`` is signed with HMAC-SHA256 under the secret of the webhook. The timestamp limits the time in which
a recorded request can be replayed.
"""

import hmac
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterable, Sequence
from hashlib import sha256

PREFIX = "whsec_"
KEY_BYTES_MIN, KEY_BYTES_MAX = 24, 64


def key_of(secret: str) -> bytes:
    """Return the key in a secret, which is ``whsec_`` and base64 of 24 to 64 bytes. Raises ValueError."""
    if not secret.startswith(PREFIX):
        raise ValueError(f"must begin with {PREFIX}")
    try:
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except Error:
        raise ValueError(f"must be base64 after {PREFIX}") from None
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise ValueError(
            f"must be {PREFIX} and base64 of {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, for instance {PREFIX} and the "
            "output of `openssl rand -base64 32`"
        )
    return key


def signature_headers(
    keys: Sequence[bytes], message_id: str, timestamp: int, blocks: Iterable[bytes]
) -> dict[str, str]:
    """Return the three headers of a request that is signed with each key.

    ``timestamp``: seconds since 1970; ``blocks``: the body.
    """
    macs = [hmac.new(key, f"{message_id}.{timestamp}.".encode(), sha256) for key in keys]
    for block in blocks:
        for mac in macs:
            mac.update(block)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{b64encode(mac.digest()).decode()}" for mac in macs),
    }
