"""Templates: compiled once for all pages of a process, and anew if their text has changed."""

from pathlib import Path

import pytest
from jinja2 import Environment

from semq.translations import Languages
from semq.web.pages.templates import environment


def rendered(folder: Path, text: str) -> str:
    (folder / "page.html").write_text(text)
    return environment([folder], Languages([])).get_template("page.html").render(value="<b>")


def test_a_template_is_compiled_once_for_all_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rendered(tmp_path, "{{ value }}") == "&lt;b&gt;"
    monkeypatch.delattr(Environment, "_compile")
    assert rendered(tmp_path, "{{ value }}") == "&lt;b&gt;"


def test_a_template_that_has_changed_is_compiled_again(tmp_path: Path) -> None:
    assert rendered(tmp_path, "one {{ value|safe_text }}") == "one &lt;b&gt;"
    assert rendered(tmp_path, "another {{ value|safe_text }}") == "another &lt;b&gt;"
