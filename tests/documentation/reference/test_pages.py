"""Each page of the reference is complete."""

import re
from functools import cache
from typing import Any

import pytest
from typer.main import get_command

from documentation.reference import log_events, log_meanings
from documentation.reference.pages import INDEX, PAGES, texts
from semq.cli.main import make
from semq.cli.reference.error_codes import all_errors
from semq.config.descriptions import descriptions_of
from semq.config.settings import Settings
from semq.counters import COUNTERS
from semq.service.monitoring.metrics import METRICS
from semq.store.postgres.roles import FUNCTIONS
from semq.umx_t.attributes import ATTRIBUTES, SetBy
from semq.web.node.operations import table
from tests.house.sources import ROOT


@cache
def pages() -> dict[str, str]:
    return dict(texts())


def missing(page: str, names: Any) -> list[str]:
    return [name for name in names if name not in pages()[f"reference/{page}.md"]]


def test_the_index_names_every_page() -> None:
    assert [place for place in PAGES if f"({place.partition('/')[2]})" not in pages()[INDEX]] == []


@pytest.mark.parametrize("place", PAGES)
def test_every_table_is_whole_and_no_cell_looks_like_html(place: str) -> None:
    text = re.sub(r"```.*?```", "", pages()[place], flags=re.DOTALL)
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1, block[:300]
    assert re.findall(r"<(?!/?span\b)\w+", re.sub(r"``.*?``|`[^`\n]*`", "", text)) == []


def test_configuration_has_every_described_key() -> None:
    described = {key for field in Settings.model_fields.values() for model in _models(field.annotation)
                 for key in descriptions_of(model)}  # fmt: skip
    assert len(described) > 100
    assert missing("configuration", [f"{key}`" for key in sorted(described)]) == []


def test_every_key_has_a_meaning() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|.*\| ([^|]*) \|$", pages()["reference/configuration.md"], re.MULTILINE)
    assert [key for key, meaning in rows if not meaning.strip()] == []


def _models(annotation: Any) -> list[Any]:
    inner = [model for part in getattr(annotation, "__args__", ()) for model in _models(part)]
    return [annotation, *inner] if hasattr(annotation, "model_fields") else inner


def test_commands_has_every_command_that_the_help_shows_and_all_options() -> None:
    names, options = list[str](), set[str]()

    def walk(words: str, command: Any) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            if not inner.hidden:
                names.append(f"# {words} {name}\n")
                for each in inner.params:
                    options.update(() if getattr(each, "hidden", False) else each.opts)
                walk(f"{words} {name}", inner)

    walk("semq", get_command(make()))
    assert len(names) > 100
    assert missing("commands", names) == []
    assert missing("commands", sorted(name for name in options - {"--help"} if name.startswith("--"))) == []


def test_http_has_every_operation_of_both_kinds_of_node() -> None:
    names = {name.replace(".", "/") for kind in ("local", "platform") for name in table(kind)}
    text = pages()["reference/http.md"]
    assert [name for name in sorted(names) if f" /{name}`" not in text] == []


def test_errors_has_every_code() -> None:
    assert missing("errors", [row["code"] for row in all_errors()]) == []


def test_attributes_has_every_attribute_that_an_application_sets() -> None:
    names = [row.name for row in ATTRIBUTES if row.set_by is SetBy.APPLICATION and row.is_header]
    assert missing("attributes", names) == []


def test_metrics_has_every_metric_and_counter() -> None:
    assert missing("metrics", [f"`{row.name}`" for row in METRICS]) == []
    assert missing("metrics", [f"`{name}`" for name in COUNTERS]) == []


def test_log_events_has_every_name_that_a_logger_is_called_with() -> None:
    call = re.compile(r'\blog\.(?:debug|info|warning|error|exception|critical)\(\s*"(\w+)"')
    names = {
        name
        for package in ("semq", "local_node", "platform_node")
        for file in (ROOT / package).rglob("*.py")
        if "structlog.get_logger" in (text := file.read_text("utf-8"))
        for name in call.findall(text)
    }
    assert len(names) > 100
    assert missing("log-events", [f"`{name}`" for name in sorted(names)]) == []
    named_by_variables = re.compile(r"\blog\.(?:debug|info|warning|error|exception|critical)\(\s*\w+\s*[,)]")
    files = (file for package in ("semq", "local_node", "platform_node") for file in (ROOT / package).rglob("*.py"))
    assert [str(file) for file in files if named_by_variables.search(file.read_text("utf-8"))] == []


def test_every_log_event_has_one_meaning() -> None:
    assert sorted(name for name, _ in log_meanings.ROWS) == sorted({event.name for event in log_events.events()})
    assert all(re.match(r"[A-Z].+[.]$", meaning) for _, meaning in log_meanings.ROWS)


def test_sql_has_every_function_of_applications() -> None:
    assert missing("sql", [f"## {name}\n" for name in FUNCTIONS]) == []
