"""Templates: compiled once for all pages of a process, and anew if their text has changed."""

from pathlib import Path

import pytest
from jinja2 import Environment

import semq.web
from semq.translations import Languages, used
from semq.web.pages.templates import compile_all, environment


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


def test_an_empty_text_has_no_translation() -> None:
    with used("zh"):
        assert Languages([Path(semq.web.__file__).with_name("translations")]).gettext("") == ""


async def test_a_template_that_cannot_be_compiled_fails_only_its_own_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.html").write_text("{% if %}")
    (tmp_path / "b.html").write_bytes(b"\xff")
    (tmp_path / "c.html").write_text("page {{ value }}")
    (tmp_path / "c.html.orig").write_bytes(b"\xff")
    templates = environment([tmp_path], Languages([]))
    await compile_all(templates)
    monkeypatch.delattr(Environment, "_compile")
    assert templates.get_template("c.html").render(value=1) == "page 1"
