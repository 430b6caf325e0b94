"""Content types of files, and the bodies that handlers read according to them."""

import pytest

from semq.app import AppKey, Document, Handlers
from semq.app.content_type import SNIFFED_MAX, content_type_of


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("x.json", b"{}", "application/json"),
        ("X.XML", b"<a/>", "application/xml"),
        ("order.csv", b"{}", "text/csv"),
        ("-", b'<?xml version="1.0"?><a/>', "application/xml"),
        ("-", b'\xef\xbb\xbf<?xml version="1.0"?><a/>', "application/xml"),
        ("-", b' \n{"a": [1]}', "application/json"),
        ("order", b"[1, 2]", "application/json"),
        ("-", b"[1, 2", ""),
        ("-", b"[" * 5000, ""),
        ("-", b"17", ""),
        ("-", b"<a/>", ""),
        ("-", b"", ""),
        ("-", b"[" + b" " * SNIFFED_MAX + b"]", ""),
        ("scan", b"%PDF-1.7", "application/pdf"),
        ("archive.tar.gz", b"", "application/gzip"),
    ],
)
def test_a_content_type_is_returned_only_if_it_is_certain(name: str, body: bytes, expected: str) -> None:
    assert content_type_of(name, body) == expected


def test_handlers_read_bodies_of_json_and_xml_types() -> None:
    handlers = Handlers()
    for content_type, body, read in (
        (content_type_of("o.json", b'{"a": 1}'), b'{"a": 1}', {"a": 1}),
        ("application/vnd.example.order+json", b"[1]", [1]),
        ("", b"[1]", b"[1]"),
    ):
        document = Document("L", "1.1", "1.2", AppKey(), body, "", content_type)
        assert handlers.read(document) == read
    xml = Document("L", "1.1", "1.2", AppKey(), b"<a/>", "", "application/vnd.example.order+xml")
    assert handlers.read(xml).tag == "a"
