"""Traces of applications: valid headers are passed on; the application or a ratio decides about sampling."""

import pytest

from semq.trace_context import TraceParent, sampled_parent, span_id, trace_context

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


def test_a_trace_state_is_passed_on_with_its_parent() -> None:
    assert trace_context({"traceparent": PARENT, "other": "x"}) == {"traceparent": PARENT}
    assert trace_context({"traceparent": PARENT, "tracestate": "a=1,b=2"})["tracestate"] == "a=1,b=2"
    assert "tracestate" not in trace_context({"traceparent": PARENT, "tracestate": "a=1\r\nx: y"})
    assert trace_context({"traceparent": PARENT, "tracestate": " a=1, b=2 "})["tracestate"] == "a=1, b=2"
    assert "tracestate" not in trace_context({"traceparent": PARENT, "tracestate": "  "})


def test_the_application_decides_whether_its_trace_is_sampled() -> None:
    parent = sampled_parent({"traceparent": PARENT, "tracestate": "a=1"}, "lk0", 0.0)
    assert parent == TraceParent(TRACE, SPAN, "a=1")
    assert sampled_parent({"traceparent": PARENT.removesuffix("1") + "0"}, "lk0", 1.0) is None
    assert sampled_parent({"traceparent": PARENT.removesuffix("01") + "03"}, "lk0", 0.0) is not None


def test_the_ratio_decides_about_documents_without_a_trace() -> None:
    names = [f"1.10008.1.1.7.{number}" for number in range(2000)]
    chosen = {name for name in names if sampled_parent({}, name, 0.25) is not None}
    assert 400 < len(chosen) < 600
    assert chosen < {name for name in names if sampled_parent({}, name, 0.5) is not None}
    assert not any(sampled_parent({}, name, 0.0) for name in names)
    parents = [
        parent for name in names if (parent := sampled_parent({"traceparent": "invalid"}, name, 1.0)) is not None
    ]
    assert len({parent.trace_id for parent in parents}) == len(names)
    assert {(len(parent.trace_id), parent.span_id) for parent in parents} == {(32, "")}


def test_ids_of_spans_follow_from_document_and_stage() -> None:
    ids = {span_id(name, stage) for name in ("a", "b") for stage in ("submit", "record")}
    assert len(ids) == 4
    assert all(len(id_) == 16 and int(id_, 16) for id_ in ids)
    assert span_id("a", "submit") in ids
