"""The content type of a document whose sender has not said one: by the name of its file, else by its first octets.

Only what is certain: a receiver reads a body by its content type (`semq.app.handlers`), so a guess would make a good
document unreadable. Used by ``semq msg send``.
"""

import json
from pathlib import PurePath

SNIFFED_MAX = 1 << 20  # octets of a body that is parsed to find out whether it is JSON
# Suffix of a file | content type. A table of our own: that of the operating system differs between machines.
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
    """The content type by the name of the file, else by what the body begins with; empty if neither is certain."""
    by_name = BY_SUFFIX.get(PurePath(name).suffix.lower())
    if by_name is not None:
        return by_name
    by_mark = next((type_ for mark, type_ in MARKS if body.startswith(mark)), None)
    if by_mark is not None:
        return by_mark
    return "application/json" if _is_json(body) else ""


def _is_json(body: bytes) -> bool:
    """Whether the whole body is one JSON object or array: a number or a word alone may be anything."""
    if len(body) > SNIFFED_MAX or body.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True
