"""The arguments of queues: permitted values, and equivalent declarations."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from semq.broker.arguments import (
    QUEUE_ARGUMENTS,
    TIMER_MAX_MS,
    BadArgumentError,
    Overflow,
    QueueSettings,
    first_difference,
    read_queue_arguments,
)
from tests.differential.chance import ARGUMENTS

# Arguments whose effect depends on time, consumers or the broker
NOT_IN_RANDOM_SCRIPTS = (
    "x-message-ttl", "x-expires", "x-single-active-consumer", "x-delivery-limit", "x-queue-type", "x-queue-mode",
    "x-dead-letter-strategy", "x-consumer-timeout",
)  # fmt: skip
GOOD: list[tuple[str, Any, Any]] = [
    ("x-message-ttl", 0, 0),
    ("x-message-ttl", TIMER_MAX_MS, TIMER_MAX_MS),
    ("x-expires", 1, 1),
    ("x-max-length", 10, 10),
    ("x-max-length-bytes", 0, 0),
    ("x-overflow", "reject-publish", Overflow.REJECT_PUBLISH),
    ("x-max-priority", 255, 255),
    ("x-dead-letter-exchange", "", ""),
    ("x-single-active-consumer", True, True),
    ("x-delivery-limit", 3, 3),
    ("x-delivery-limit", -1, None),
    ("x-delivery-limit", -2, None),
    ("x-queue-type", "quorum", "quorum"),
    ("x-queue-mode", "lazy", "lazy"),
    ("x-dead-letter-strategy", "at-least-once", True),
    ("x-dead-letter-strategy", "at-most-once", False),
    ("x-consumer-timeout", 1_800_000, 1_800_000),
]
BAD: list[tuple[str, Any]] = [
    ("x-dead-letter-routing-key", "k" * 256),
    ("x-dead-letter-routing-key", "é" * 128),
    ("x-dead-letter-routing-key", "a\0b"),
    ("x-message-ttl", -1),
    ("x-message-ttl", TIMER_MAX_MS + 1),
    ("x-message-ttl", "60000"),
    ("x-message-ttl", True),
    ("x-expires", 0),
    ("x-max-length", -1),
    ("x-max-length-bytes", 1.5),
    ("x-overflow", "explode"),
    ("x-overflow", 1),
    ("x-max-priority", 256),
    ("x-dead-letter-exchange", 1),
    ("x-dead-letter-routing-key", None),
    ("x-single-active-consumer", 1),
    ("x-delivery-limit", "3"),
    ("x-delivery-limit", -1.0),
    ("x-queue-type", "stream"),
    ("x-queue-mode", "eager"),
    ("x-dead-letter-strategy", "exactly-once"),
    ("x-dead-letter-strategy", True),
    ("x-consumer-timeout", 0),
    ("x-consumer-timeout", "60000"),
]


def test_every_argument_has_good_and_bad_values() -> None:
    needs_exchange = {"x-dead-letter-routing-key"}  # has a test of its own below
    assert {name for name, _, _ in GOOD} | needs_exchange == {name for name, _ in BAD} == set(QUEUE_ARGUMENTS)


def test_every_setting_of_a_queue_has_an_argument() -> None:
    assert sorted(field for field, _ in QUEUE_ARGUMENTS.values()) == sorted(each.name for each in fields(QueueSettings))


def test_the_guide_for_applications_lists_every_argument() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "applications" / "queues.md").read_text("utf-8")
    rows = re.findall(r"^\| (`x-[^|]*) \|", guide, re.MULTILINE)
    assert sorted(re.findall(r"`(x-[a-z-]+)`", " ".join(rows))) == sorted(QUEUE_ARGUMENTS)


def test_random_scripts_use_every_argument_whose_effect_is_the_same_each_time() -> None:
    used = {name for arguments in ARGUMENTS for name in arguments}
    assert sorted([*used, *NOT_IN_RANDOM_SCRIPTS]) == sorted(QUEUE_ARGUMENTS)


@pytest.mark.parametrize(("name", "value", "meaning"), GOOD)
def test_a_good_argument_of_a_queue_is_read_into_its_field(name: str, value: Any, meaning: Any) -> None:
    field, _ = QUEUE_ARGUMENTS[name]
    assert getattr(read_queue_arguments({name: value}), field) == meaning


@pytest.mark.parametrize(("name", "value"), BAD)
def test_the_error_of_a_bad_value_names_its_argument(name: str, value: Any) -> None:
    # A routing key needs an exchange.
    exchange = {"x-dead-letter-exchange": "e"} if name == "x-dead-letter-routing-key" else {}
    with pytest.raises(BadArgumentError) as caught:
        read_queue_arguments({**exchange, name: value})
    assert caught.value.name == name


def test_a_dead_letter_routing_key_needs_an_exchange() -> None:
    with pytest.raises(BadArgumentError, match="routing_key_but_no_dlx_defined"):
        read_queue_arguments({"x-dead-letter-routing-key": "k"})
    assert (
        read_queue_arguments({"x-dead-letter-routing-key": "k", "x-dead-letter-exchange": "e"}).dead_letter_routing_key
        == "k"
    )


@pytest.mark.parametrize("limit", ["x-max-length", "x-max-length-bytes"])
def test_a_queue_that_drops_messages_at_its_limit_cannot_keep_dead_letters(limit: str) -> None:
    arguments = {"x-dead-letter-strategy": "at-least-once", limit: 5}
    with pytest.raises(BadArgumentError, match="needs x-overflow reject-publish"):
        read_queue_arguments(arguments)
    assert read_queue_arguments(arguments | {"x-overflow": "reject-publish"}).at_least_once


def test_unknown_arguments_change_nothing() -> None:
    assert read_queue_arguments({"x-whatever": 1, "colour": "red"}) == QueueSettings()


def test_only_arguments_with_a_meaning_are_compared() -> None:
    assert first_difference({"x-max-length": 1, "colour": "red"}, {"x-max-length": 1}) is None
    assert first_difference({"x-max-length": 1}, {}) == "x-max-length"
    for name, value, _ in GOOD:
        assert first_difference({name: value}, {name: "other"}) == name
    assert first_difference({}, {"x-overflow": "drop-head"}) == "x-overflow"
