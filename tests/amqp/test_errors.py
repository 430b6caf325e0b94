"""The error tree: one class per reply code, with a text that fits into a short string."""

import pytest

from semq.amqp.errors import (
    BY_CODE,
    HARD,
    SOFT,
    AmqpError,
    Blame,
    ChannelException,
    ConnectionException,
    LocalMisuse,
    NotFound,
    by_code,
    clipped,
)
from semq.errors import SemqError

SPECIFIED = {
    311: ("content-too-large", "soft"),
    312: ("no-route", "soft"),
    313: ("no-consumers", "soft"),
    320: ("connection-forced", "hard"),
    402: ("invalid-path", "hard"),
    403: ("access-refused", "soft"),
    404: ("not-found", "soft"),
    405: ("resource-locked", "soft"),
    406: ("precondition-failed", "soft"),
    501: ("frame-error", "hard"),
    502: ("syntax-error", "hard"),
    503: ("command-invalid", "hard"),
    504: ("channel-error", "hard"),
    505: ("unexpected-frame", "hard"),
    506: ("resource-error", "hard"),
    530: ("not-allowed", "hard"),
    540: ("not-implemented", "hard"),
    541: ("internal-error", "hard"),
}


def test_every_reply_code_has_a_class_at_its_level() -> None:
    classes = {
        code: (kind.name.lower().replace("_", "-"), "soft" if kind in SOFT else "hard")
        for code, kind in BY_CODE.items()
    }
    assert classes == SPECIFIED
    assert {ChannelException} == {kind.__base__ for kind in SOFT}
    assert {ConnectionException} == {kind.__base__ for kind in HARD}


@pytest.mark.parametrize("kind", BY_CODE.values())
def test_the_stable_code_contains_the_reply_code(kind: type[AmqpError]) -> None:
    assert kind.code == f"SEMQ-4{kind.reply_code}"
    assert issubclass(kind, SemqError)
    assert kind.remedy != AmqpError.remedy


def test_an_error_carries_its_facts() -> None:
    error = NotFound("no queue 'q'", 50, 10)
    assert (error.reply_code, error.ids, error.blame) == (404, (50, 10), Blame.REMOTE)
    assert error.reply_text == "NOT_FOUND - no queue 'q'"
    assert "class_id=50" in str(error)


def test_ids_of_an_error_are_set_once() -> None:
    assert NotFound("x").at(50, 10).ids == (50, 10)
    assert NotFound("x", 60, 70).at(50, 10).ids == (60, 70)
    assert NotFound("x").at(50, 10).facts["method_id"] == 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [("short", "short"), ("a\0b", "a?b"), ("x" * 300, "x" * 255), ("é" * 200, "é" * 127), ("\ud800", "?")],
)
def test_a_clipped_text_fits_into_a_short_string(text: str, expected: str) -> None:
    assert clipped(text) == expected


def test_a_known_reply_code_gives_its_class_and_an_unknown_one_is_kept() -> None:
    not_found = by_code(404, "gone", 50, 10, blame=Blame.LOCAL, level=ChannelException)
    assert type(not_found) is NotFound
    assert not_found.blame is Blame.LOCAL
    unknown = by_code(499, "odd", blame=Blame.LOCAL, level=ConnectionException)
    assert type(unknown) is ConnectionException
    assert unknown.reply_code == 499


def test_misuse_is_the_fault_of_this_side() -> None:
    assert LocalMisuse("not now").blame is Blame.LOCAL
