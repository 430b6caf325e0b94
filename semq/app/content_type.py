"""The content type of a file, found by the suffix of its name or by its content.

These are tried in turn: a known suffix, the beginning of the body, and whether the body is a JSON object or array.
Nothing else is guessed: receivers read a body by its content type (`semq.app.handlers`), so a wrong guess would make a
good document unreadable.
"""

import json
from pathlib import PurePath

SNIFFED_MAX = 1 << 20  # bytes; larger bodies are not parsed
# Suffix | content type. The table of the operating system is not used, because it differs between machines.
BY_SUFFIX = {
    ".csv": "text/csv",
    ".edi": "application/EDIFACT",
    ".gz": "application/gzip",
    ".html": "text/html",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".json": "application/json",
    ".md": "text/markdown",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".txt": "text/plain",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".xml": "application/xml",
    ".zip": "application/zip",
}
MARKS = (  # beginning of a body | content type
    (b"<?xml ", "application/xml"),
    (b"\xef\xbb\xbf<?xml ", "application/xml"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
)


def content_type_of(name: str, body: bytes) -> str:
    """Return the content type by the name of the file, else by its content; empty if neither decides it.

    ``body``: the whole body, or the beginning of a large one.
    """
    by_name = BY_SUFFIX.get(PurePath(name).suffix.lower())
    if by_name is not None:
        return by_name
    by_mark = next((type_ for mark, type_ in MARKS if body.startswith(mark)), None)
    if by_mark is not None:
        return by_mark
    return "application/json" if _is_json(body) else ""


def _is_json(body: bytes) -> bool:
    """Return whether the whole body is one JSON object or array of at most SNIFFED_MAX bytes."""
    if len(body) > SNIFFED_MAX or body.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True
