"""Documents and events as HTTP requests.

A document keeps its body and content type. Its attributes are percent-encoded headers (CloudEvents 1.0, HTTP binding,
3.1.3.2): ``ce-…`` for CloudEvents (binary mode), ``semq-…`` for SEMQ; source and AppKey have both. The sender's own
headers are ``semq-header-NAME``, up to a total size, and ``semq-headers-omitted`` counts the others. An event is a
CloudEvent in JSON.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote

from semq.app import Document, DocumentEvent
from semq.moments import utc_text
from semq.trace_context import trace_context
from semq.transport.spool import SpooledBody

PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')  # characters that stay unencoded

OWN_PREFIX, OMITTED = "semq-header-", "semq-headers-omitted"
OWN_BYTES_MAX = 4096  # of names and values of all own headers: many servers refuse more than 8 KiB of headers
ENDS = re.compile("^ +| +$")  # spaces that a server takes away
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # token of RFC 9110, section 5.6.2

# Fields of a document that get no header ``semq-…``
WITHOUT_OWN_HEADER = ("lk0", "content_type", "submitted_at", "headers")


class WebhookRequest(NamedTuple):
    """A request to a webhook."""

    id: str  #: the same whenever this request is posted
    headers: dict[str, str]
    body: bytes | SpooledBody  #: a large body is in a file


def of_document(document: Document) -> WebhookRequest:
    """Return the request for a received document."""
    attributes = {
        "ce-specversion": "1.0",
        "ce-id": document.lk0,
        "ce-type": "semq.document",
        "ce-source": f"semq:{document.source}",
        "ce-subject": str(document.app_key),
        "ce-time": utc_text(document.submitted_at),
    }
    for name, value in document.described().items():
        if name not in WITHOUT_OWN_HEADER:
            attributes[f"semq-{name.replace('_', '-')}"] = str(int(value) if isinstance(value, bool) else value)
    headers = {name: quote(value, safe=PLAIN) for name, value in attributes.items() if value}
    trace = trace_context(document.headers)
    headers |= trace | _own_headers(document.described()["headers"], trace)
    content_type = document.content_type.strip()  # HTTP permits no spaces at the ends of a header
    headers["content-type"] = quote(content_type, safe=PLAIN + ' "%') or "application/octet-stream"
    headers["content-length"] = str(document.size)
    return WebhookRequest(document.lk0, headers, document.body)


def _own_headers(own: Mapping[str, object], trace: Mapping[str, str]) -> dict[str, str]:
    """Return the sender's own headers, and the number of those that are left out. ``trace``: passed on otherwise."""
    headers: dict[str, str] = {}
    room, omitted = OWN_BYTES_MAX, 0
    for own_name, value in own.items():
        name = f"{OWN_PREFIX}{own_name.lower()}"
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        encoded = ENDS.sub(lambda ends: "%20" * len(ends[0]), quote(text, safe=PLAIN + " ", errors="replace"))
        size = len(name) + len(encoded)
        if own_name in trace:
            continue
        if size <= room and HEADER_NAME.fullmatch(own_name) and name not in headers:
            headers[name] = encoded
            room -= size
        else:
            omitted += 1
    return headers | ({OMITTED: str(omitted)} if omitted else {})


def of_event(event: DocumentEvent) -> WebhookRequest:
    """Return the request for an event about a document that this node has sent."""
    event_id = f"{event.lk0 or _id_of_refused(event)}.{event.kind}.{event.attempt}.{_milliseconds(event.at)}"
    subject = event.lk0 or str(event.app_key)
    facts = {
        "specversion": "1.0",
        "id": event_id,
        "type": f"semq.document.{event.kind}",
        "source": "semq",
        **({"subject": subject} if subject else {}),
        "time": utc_text(event.at),
        "datacontenttype": "application/json",
        "data": {
            "lk0": event.lk0,
            "target": event.target,
            "app_key": str(event.app_key),
            "token": event.token,
            "attempt": event.attempt,
            "outcome": event.outcome,
            "reason": event.reason,
            "corrects": event.corrects,
            **({"group": asdict(event.group)} if event.group else {}),
        },
    }
    body = json.dumps(facts, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return WebhookRequest(event_id, {"content-type": "application/cloudevents+json"}, body)


def _id_of_refused(event: DocumentEvent) -> str:
    """Return an identifier for a refused document, which has no locator."""
    return sha256(
        f"{event.id}\n{event.token}\n{event.app_key}\n{event.target}".encode("utf-8", "surrogatepass")
    ).hexdigest()[:32]


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
