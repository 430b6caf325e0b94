"""Comparison of the arguments of a binding to a headers exchange with the headers of a message. Pure.

Rule (AMQP 0-9-1, 3.1.3.4, as interpreted by RabbitMQ): ``x-match`` states whether all or any of the other arguments
must match; an argument without a value matches a header of that name with any value; names with ``x-`` are ignored
unless ``x-match`` ends in ``-with-x``. A value of another type does not match, but all numbers are of one type.
"""

from collections.abc import Mapping
from typing import Any

from semq.broker.refusals import field_type

X_MATCH = {
    # value: (every argument must match, names with x- count)
    "all": (True, False),
    "any": (False, False),
    "all-with-x": (True, True),
    "any-with-x": (False, True),
}


class HeadersPattern:
    """The arguments of one binding, prepared for comparison. Raises ValueError for an unknown ``x-match``."""

    __slots__ = ("_every", "_wanted")

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        mode = arguments.get("x-match", "all")
        if not isinstance(mode, str):
            raise ValueError(f"Invalid x-match field type {field_type(mode)} (value {mode}); expected longstr")
        if mode not in X_MATCH:
            expected = "all, any, all-with-x, or any-with-x"
            raise ValueError(f'Invalid x-match field value <<"{mode}">>; expected {expected}')
        self._every, with_x = X_MATCH[mode]
        self._wanted = [
            (name, value)
            for name, value in arguments.items()
            if name != "x-match" and (with_x or not name.startswith("x-"))
        ]

    def fits(self, headers: Mapping[str, Any]) -> bool:
        """Return whether a message with these headers is routed to the binding's destination."""
        test = all if self._every else any
        return test(name in headers and _same(value, headers[name]) for name, value in self._wanted)


def _same(wanted: Any, given: Any) -> bool:
    return wanted is None or (wanted == given and _kind(wanted) is _kind(given))


def _kind(value: Any) -> type:
    return int if type(value) is float else type(value)
