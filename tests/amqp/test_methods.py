"""The method classes compared with the table of the specification."""

from typing import Any

import pytest

from semq.amqp.methods import METHODS, Method, QueueDeclare, QueueDeclareOk, registered
from semq.amqp.spec import ROWS

# type in the table -> type of the default
DEFAULTS: dict[str, type | tuple[type, ...]] = {
    "bit": bool,
    "octet": int,
    "short": int,
    "long": int,
    "longlong": int,
    "shortstr": str,
    "longstr": bytes,
    "table": type(QueueDeclare().arguments),
}


def test_every_row_has_a_class() -> None:
    assert {method.row.name for method in METHODS.values()} == set(ROWS)
    assert all(METHODS[method.ids] is method for method in METHODS.values())


@pytest.mark.parametrize("method", METHODS.values())
def test_defaults_have_the_types_of_the_table(method: type[Method]) -> None:
    with_defaults: Any = method()
    for argument in method.row.arguments:
        if argument.name:
            assert type(getattr(with_defaults, argument.name)) is DEFAULTS[argument.kind]
    assert method.__doc__


def test_a_class_that_differs_from_its_row_is_refused() -> None:
    class QueuePurge(Method):
        queue: str

    class QueueInvent(Method):
        pass

    with pytest.raises(TypeError, match=r"queue\.purge has the arguments"):
        registered(QueuePurge)
    with pytest.raises(KeyError):
        registered(QueueInvent)


def test_methods_with_equal_arguments_are_equal() -> None:
    assert QueueDeclare("q", durable=True) == QueueDeclare(queue="q", durable=True)
    assert QueueDeclareOk("q", 1, 2) != QueueDeclareOk("q", 1, 3)
