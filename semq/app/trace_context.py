"""The trace of an application (W3C Trace Context), which travels with its documents as two headers.

An AMQP application sets ``traceparent`` and ``tracestate`` as headers of a message, and gets them as headers of a
document. Over HTTP they are the headers of that name, at the API in both directions and at webhooks.
"""

import re
from collections.abc import Mapping
from typing import Any

PARENT, STATE = "traceparent", "tracestate"
NAMES = (PARENT, STATE)
# Version, trace id, parent id, flags; version ff and ids of zeros are invalid (Trace Context, 3.2.2).
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_STATE = re.compile(r"[\x20-\x7e]{1,512}")


def trace_context(headers: Mapping[str, Any]) -> dict[str, str]:
    """Return those of the two headers that are valid; ``tracestate`` only with a valid ``traceparent`` (3.3)."""
    parent, state = headers.get(PARENT), headers.get(STATE)
    if not isinstance(parent, str) or not _PARENT.fullmatch(parent):
        return {}
    return {PARENT: parent} | ({STATE: state} if isinstance(state, str) and _STATE.fullmatch(state) else {})
