"""The table of the specification, compared with the table of pamqp and with its own grammar."""

from typing import Any

import pamqp.commands
import pytest

from semq.amqp import spec
from semq.amqp.spec import PROPERTIES, ROWS, MethodRow, read


def test_the_methods_are_those_of_pamqp() -> None:
    assert {(row.class_id, row.method_id) for row in ROWS.values()} == {
        (index >> 16, index & 0xFFFF) for index in pamqp.commands.INDEX_MAPPING
    }


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_a_row_agrees_with_pamqp(row: MethodRow) -> None:
    kind: Any = pamqp.commands.INDEX_MAPPING[row.class_id << 16 | row.method_id]
    expected = [(name, kind.amqp_type(name)) for name in kind.attributes()]
    assert [argument.kind for argument in row.arguments] == [wire_type for _, wire_type in expected]
    renamed = {"nowait": "no_wait", "exchange_type": "type", "global_": "global_"}
    for argument, (name, _) in zip(row.arguments, expected, strict=True):
        if argument.name:
            assert argument.name == renamed.get(name, name)
    replies = {reply.replace(".", "").lower() for reply in kind.valid_responses}
    assert {reply.replace(".", "").replace("-", "") for reply in row.replies} == replies


def test_the_properties_are_those_of_pamqp() -> None:
    kind = pamqp.commands.Basic.Properties
    renamed = {"message_type": "type"}
    assert [(renamed.get(name, name), kind.amqp_type(name)) for name in kind.attributes()] == list(PROPERTIES)


def test_four_methods_have_content() -> None:
    assert {name for name, row in ROWS.items() if row.content} == {
        "basic.publish",
        "basic.deliver",
        "basic.return",
        "basic.get-ok",
    }


def test_replies_are_sent_by_the_other_side() -> None:
    for row in ROWS.values():
        for reply in row.replies:
            assert set(ROWS[reply].senders) & ({"C", "S"} - set(row.senders) or {"C", "S"})


@pytest.mark.parametrize(
    "grid",
    [
        "a.b 1.2 C\n    x:string",  # unknown type
        "a.b 1.2 X",  # unknown sender
        "a.b 1.2 C c-ok",  # unknown reply
    ],
)
def test_an_unknown_word_is_refused(grid: str) -> None:
    with pytest.raises(ValueError, match="unknown"):
        read(grid)


def test_the_constants_are_those_of_the_specification() -> None:
    assert spec.PROTOCOL_HEADER == b"AMQP\x00\x00\x09\x01"
    assert (spec.FRAME_METHOD, spec.FRAME_HEADER, spec.FRAME_BODY, spec.FRAME_HEARTBEAT) == (1, 2, 3, 8)
    assert (spec.FRAME_END, spec.FRAME_MIN_SIZE, spec.BASIC, spec.CONNECTION) == (0xCE, 4096, 60, 10)
