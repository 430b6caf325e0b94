"""The section ``[telemetry]``: the export of spans to an OpenTelemetry collector."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from semq.config.headers import HeaderName, HeaderValue
from semq.config.sections import Seconds, Section


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.path in ("", "/"):
        raise ValueError("must be https://host:port/path; most collectors have http://host:4318/v1/traces")
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise ValueError("must be printable ASCII: write the host in its xn-- form, other characters as %XX")
    if parts.username or parts.password or parts.fragment:
        raise ValueError("must not contain a user, a password or a fragment: secrets belong in telemetry.headers")
    _ = parts.port  # raises ValueError if it is out of range
    return url


class TelemetrySection(Section):
    """Export of spans to an OpenTelemetry collector (OTLP over HTTP)."""

    endpoint: Annotated[str, AfterValidator(_endpoint)]
    """address of the collector for traces, for instance http://host:4318/v1/traces"""
    headers: dict[HeaderName, HeaderValue] = Field(default={})
    """headers of the requests, for instance Authorization; also as variables SEMQ_TELEMETRY__HEADERS__NAME"""
    service_name: Annotated[str, Field(max_length=255)] = ""
    """service.name of the spans; default: semq-ID"""
    sample_ratio: Annotated[float, Field(ge=0, le=1)] = 0.0
    """traced part (0 to 1) of the documents that have no traceparent header; should be the same at all nodes"""
    queue_spans: Annotated[int, Field(ge=1, le=1_000_000)] = 8192
    """spans that may wait for the collector; further ones are dropped and counted"""
    batch_spans: Annotated[int, Field(ge=1, le=10_000)] = 512
    """largest number of spans in one request"""
    every_s: Seconds = 5.0
    """longest time for which a span waits for further spans of its request"""
    timeout_s: Seconds = 10.0
    """longest wait for an answer of the collector"""
    trust: Path | None = None
    """PEM file of the collector's authorities; relative to the file; default: the system's authorities"""
    allow_plain: bool = False
    """allow http:// to another machine: the network can read spans and headers"""
