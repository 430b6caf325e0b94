"""Registration of functions: the best match, the reading of bodies, and refused registrations."""

import re
from pathlib import Path
from typing import Any

import pytest

from semq.app.handlers import CannotRead, Handlers, NoHandler
from semq.app.values import Document
from semq.umx_t.app_key import AppKey


def document(content_type: str, payload: bytes) -> Document:
    return Document("1.a.1.1.1.1", "1.a", "1.b", AppKey(), payload, "", content_type)


def test_the_handler_with_the_best_match_is_chosen() -> None:
    handlers = Handlers()
    kinds = ["//", "trade//", "trade/order/", "trade//standard", "/order/standard"]
    for each in kinds:
        handlers.on(*each.split("/"))(lambda _document, _body: None)
    for key, kind in [
        (AppKey("trade", "order", "standard", "1"), ("trade", "order", "")),
        (AppKey("trade", "invoice", "standard"), ("trade", "", "standard")),
        (AppKey("trade", "invoice", "other"), ("trade", "", "")),
        (AppKey("health", "order", "standard"), ("", "order", "standard")),
        (AppKey(), ("", "", "")),
    ]:
        assert handlers.find(key) is handlers.kinds[kind]


def test_the_handler_in_the_guide_takes_the_documents_of_its_commands() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "applications" / "python.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(from semq.app import Document, Handlers\n.*?)```", guide, re.DOTALL)
    example: dict[str, Any] = {}
    exec(code, example)
    for domain in ("", "trade"):  # of `semq msg send --type order`, and of the samples
        assert example["handlers"].find(AppKey(domain, "order", "", "S0001")).function is example["order"]


def test_a_document_without_a_handler_is_refused() -> None:
    handlers = Handlers()
    handlers.on("trade")(lambda _document, _body: None)
    with pytest.raises(NoHandler, match="health"):
        handlers.find(AppKey("health", "order"))


@pytest.mark.parametrize("numbers", [{"retries": -1}, {"time_limit_s": 0}, {"backoff_s": -1.0}])
def test_numbers_of_a_handler_that_are_out_of_range_are_refused(numbers: Any) -> None:
    with pytest.raises(ValueError, match="negative"):
        Handlers().on(**numbers)


def test_a_second_function_for_a_kind_of_documents_is_refused() -> None:
    handlers = Handlers()
    handlers.on("trade")(lambda _document, _body: None)
    with pytest.raises(ValueError, match="already"):
        handlers.on("trade")


def test_bodies_are_read_by_their_content_type() -> None:
    handlers = Handlers()
    assert handlers.read(document("application/json; charset=utf-8", b'{"a": 1}')) == {"a": 1}
    assert handlers.read(document("text/XML", b"<a>b</a>")).text == "b"
    assert handlers.read(document("text/plain", "ü".encode())) == "ü"
    assert handlers.read(document("", b"\xff")) == b"\xff"
    assert handlers.read(document("text/csv", b"a,b")) == b"a,b"
    with pytest.raises(CannotRead, match="JSONDecodeError"):
        handlers.read(document("application/json", b"{"))
