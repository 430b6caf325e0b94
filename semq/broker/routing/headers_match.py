"""Comparison of the arguments of a binding to a headers exchange with the headers of a message. Pure.

Rule (AMQP 0-9-1, 3.1.3.4, as interpreted by RabbitMQ): ``x-match`` states whether all or any of the other arguments
must match. An argument without a value matches a header of that name with any value. Names that begin with ``x-`` are
ignored unless ``x-match`` ends in ``-with-x``. A value of another type does not match, but integers and floating-point
numbers count as one type.
"""

from collections.abc import Mapping

from semq.broker.refusals import field_type

X_MATCH = {
    # value: (every argument must match, names that begin with x- count)
    "all": (True, False),
    "any": (False, False),
    "all-with-x": (True, True),
    "any-with-x": (False, True),
}


class HeadersPattern:
    """The arguments of one binding, prepared for comparison. Raises ValueError for an invalid ``x-match``."""

    __slots__ = ("_all_must_match", "_required")

    def __init__(self, arguments: Mapping[str, object]) -> None:
        mode = arguments.get("x-match", "all")
        if not isinstance(mode, str):
            raise ValueError(f"Invalid x-match field type {field_type(mode)} (value {mode}); expected longstr")
        if mode not in X_MATCH:
            expected = "all, any, all-with-x, or any-with-x"
            raise ValueError(f'Invalid x-match field value <<"{mode}">>; expected {expected}')
        self._all_must_match, with_x = X_MATCH[mode]
        self._required = [
            (name, value)
            for name, value in arguments.items()
            if name != "x-match" and (with_x or not name.startswith("x-"))
        ]

    def matches(self, headers: Mapping[str, object]) -> bool:
        test = all if self._all_must_match else any
        return test(name in headers and _is_match(value, headers[name]) for name, value in self._required)


def _is_match(expected: object, actual: object) -> bool:
    return expected is None or (expected == actual and _kind(expected) is _kind(actual))


def _kind(value: object) -> type:
    return int if type(value) is float else type(value)
