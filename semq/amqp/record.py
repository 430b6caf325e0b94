"""Small slotted value classes, declared like dataclasses: the base of methods and events.

A ``Record`` has its annotated fields as slots, an ``__init__``, equality by type and value, and a ``repr``. Unlike a
dataclass, a subclass with fields of its own inherits no defaults. A hundred dataclasses would add 60 ms to the import
time of every command.
"""

import sys
from typing import Any, ClassVar, dataclass_transform, get_origin


@dataclass_transform()
class RecordType(type):
    """The metaclass that turns annotations into slots and writes the constructor."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "RecordType":
        annotations = _annotations_in(namespace).items()
        own_fields = tuple(field for field, kind in annotations if get_origin(kind) is not ClassVar)
        defaults = {field: namespace.pop(field) for field in own_fields if field in namespace}
        namespace["__slots__"] = own_fields
        inherited = tuple(field for base in bases for field in getattr(base, "names", ()))
        namespace["names"] = namespace["__match_args__"] = inherited + own_fields
        record = super().__new__(mcs, name, bases, namespace)
        if own_fields:
            record.__init__ = _constructor(inherited + own_fields, defaults)  # type: ignore[misc]
        return record


def _annotations_in(namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the annotations of a new class, of which from Python 3.14 on the namespace has only the function."""
    if sys.version_info >= (3, 14):  # pragma: no cover
        from annotationlib import Format, call_annotate_function, get_annotate_from_class_namespace

        annotate = get_annotate_from_class_namespace(namespace)
        return {} if annotate is None else call_annotate_function(annotate, Format.FORWARDREF)
    annotations: dict[str, Any] = namespace.get("__annotations__", {})
    return annotations


def _constructor(fields: tuple[str, ...], defaults: dict[str, Any]) -> Any:
    """Return an ``__init__`` that stores ``fields``, generated as source to be as fast as handwritten code."""
    arguments = ", ".join(f"{field}=_{field}" if field in defaults else field for field in fields)
    stores = "".join(f"\n    self.{field} = {field}" for field in fields)
    scope = {f"_{field}": value for field, value in defaults.items()}
    exec(f"def __init__(self, {arguments}):{stores}", scope)  # only names of fields are in this text, never input
    return scope["__init__"]


class Record(metaclass=RecordType):
    """The base of value classes: a subclass declares its fields by annotations."""

    names: ClassVar[tuple[str, ...]]  # names of the fields, in order

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(getattr(self, field) == getattr(other, field) for field in self.names)

    def __repr__(self) -> str:
        fields = ", ".join(f"{field}={getattr(self, field)!r}" for field in self.names)
        return f"{type(self).__name__}({fields})"
