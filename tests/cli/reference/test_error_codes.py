"""Errors: each has a code, a sentence and a remedy, and can be looked up."""

import re
from pathlib import Path

import semq as semq_package
from semq.cli.reference.error_codes import PACKAGES, all_errors
from semq.engine.errors import UnknownTarget
from semq.service.errors import BadArguments
from semq.umx_t.errors import BadLocator
from tests.cli.command import semq


def test_every_error_has_a_sentence_and_a_remedy() -> None:
    rows = all_errors()
    assert len(rows) > 60
    assert [row for row in rows if not all(row.values())] == []
    assert len({row["code"] for row in rows}) == len(rows)


def test_every_remedy_fits_into_a_reply_text_of_amqp() -> None:
    assert [row["code"] for row in all_errors() if len(row["remedy"].encode()) > 255] == []


def test_every_code_in_the_sources_can_be_looked_up() -> None:
    written = {
        code
        for package in PACKAGES
        for file in (Path(semq_package.__file__).parents[1] / package).rglob("*.py")
        for code in re.findall(r'^    code\b.* = "(SEMQ-\d{4})"', file.read_text("utf-8"), re.MULTILINE)
    }
    assert written == {row["code"] for row in semq("errors", "list", "--json").data}
    assert "port" in semq("errors", "lookup", "SEMQ-2003").out


def test_an_error_without_a_remedy_shows_the_remedy_of_its_base() -> None:
    rows = {row["code"]: row for row in all_errors()}
    for error in (BadLocator, UnknownTarget, BadArguments):
        assert rows[error.code]["remedy"] == error.remedy


def test_a_code_is_looked_up_in_both_forms() -> None:
    for code in ("SEMQ-1201", "semq-1201", "1201"):
        assert semq("errors", "lookup", code, "--json").data["name"] == "UnknownTarget"
    assert "no such institution" in semq("errors", "lookup", "1201").out
    semq("errors", "lookup", "0").fails(1, "SEMQ-2204")


def test_errors_of_all_ranges_of_codes_are_listed() -> None:
    codes = {row["code"][5] for row in semq("errors", "list", "--json").data}
    assert codes >= set("1234")
    assert "SEMQ-1201" in semq("errors", "list").out
