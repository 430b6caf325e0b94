"""Trace context: only valid headers are passed on."""

import pytest

from semq.app.trace_context import trace_context

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    "parent",
    [
        "", PARENT.upper(), PARENT + "0", PARENT.replace("00-", "ff-", 1), PARENT.replace(TRACE, "0" * 32),
        PARENT.replace(SPAN, "0" * 16), PARENT + "\n", 7, None,
    ],
)  # fmt: skip
def test_an_invalid_parent_is_not_passed_on(parent: object) -> None:
    assert trace_context({"traceparent": parent, "tracestate": "a=1"}) == {}


def test_a_state_goes_with_its_parent() -> None:
    assert trace_context({"traceparent": PARENT, "other": "x"}) == {"traceparent": PARENT}
    assert trace_context({"traceparent": PARENT, "tracestate": "a=1,b=2"})["tracestate"] == "a=1,b=2"
    assert "tracestate" not in trace_context({"traceparent": PARENT, "tracestate": "a=1\r\nx: y"})
