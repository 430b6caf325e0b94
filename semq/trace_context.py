"""Traces of applications (W3C Trace Context), which travel as two headers, and the ids of SEMQ's spans.

Nodes do not rewrite the headers, because seal and signature bind them. The ids of SEMQ's own spans are hashes of LK0
and stage, so each node can calculate the ids of spans of other nodes.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

PARENT, STATE = "traceparent", "tracestate"
NAMES = (PARENT, STATE)
# Version, trace id, parent id, flags; version ff and ids of zeros are invalid (Trace Context, 3.2.2).
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_STATE = re.compile(r"[\x20-\x7e]{1,512}")
SAMPLED = 1  # the flag of ``traceparent`` by which the application requests spans
_RANDOM_BITS = 56  # length of the end of a trace id that is compared with the sampling ratio


class TraceParent(NamedTuple):
    """The span in which the application sent a document: the parent of the document's spans."""

    trace_id: str
    span_id: str  #: empty for a trace that begins with the document
    state: str = ""


def trace_context(headers: Mapping[str, object]) -> dict[str, str]:
    """Return the valid headers; none if ``traceparent`` is missing or invalid (Trace Context, 3.3)."""
    parent, state = headers.get(PARENT), headers.get(STATE)
    if not isinstance(parent, str) or not _PARENT.fullmatch(parent):
        return {}
    state = state.strip(" ") if isinstance(state, str) else ""  # HTTP permits no spaces at the ends of a header
    return {PARENT: parent} | ({STATE: state} if _STATE.fullmatch(state) else {})


def sampled_parent(headers: Mapping[str, object], lk0: str, ratio: float) -> TraceParent | None:
    """Return the parent of a document's spans, or None if the document is not sampled.

    The flag of a valid ``traceparent`` decides. Of other documents, the share ``ratio`` is sampled, chosen by LK0:
    nodes with equal ratios choose the same documents.
    """
    if PARENT in headers and (context := trace_context(headers)):
        _, trace_id, span_id, flags = context[PARENT].split("-")
        return TraceParent(trace_id, span_id, context.get(STATE, "")) if int(flags, 16) & SAMPLED else None
    if not ratio:
        return None
    trace_id = sha256(f"trace {lk0}".encode()).hexdigest()[:32]
    is_chosen = int(trace_id, 16) % (1 << _RANDOM_BITS) < ratio * (1 << _RANDOM_BITS)
    return TraceParent(trace_id, "") if is_chosen else None


def span_id(lk0: str, stage: str) -> str:
    """Return the id of the span of one stage of a document."""
    return sha256(f"span {stage} {lk0}".encode()).hexdigest()[:16]
