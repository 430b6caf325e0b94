"""The names of all keys, derived from the sections."""

from collections.abc import Iterator
from typing import TypeGuard, get_args, get_origin

from pydantic import BaseModel

from semq.config.settings import Settings


def is_known(path: list[str]) -> bool:
    """Return whether a key or a section has this path."""
    return _type_at(path) is not None


def keys_of(path: list[str]) -> list[str]:
    """Return the keys of the section with this path; empty if no section has this path."""
    type_ = _type_at(path)
    return list(type_.model_fields) if _is_section(type_) else []


def all_keys() -> list[list[str]]:
    """Return the path of every key, with NAME for a user-defined name."""
    return list(_paths(Settings))


def _type_at(path: list[str]) -> object:
    """Return the type at a path; None if no key or section has this path."""
    type_: object = Settings
    for name in path:
        type_ = _type_under(type_, name)
    return type_


def _paths(type_: object) -> Iterator[list[str]]:
    if _is_section(type_):
        names = list(type_.model_fields)
    elif _value_type(type_) is not None:
        names = ["NAME"]
    else:
        yield []
        return
    for name in names:
        for path in _paths(_type_under(type_, name)):
            yield [name, *path]


def _type_under(type_: object, name: str) -> object:
    """Return the type of a key in a section or in a table of user-defined names; None if there is none."""
    if _is_section(type_):
        return _without_none(type_.model_fields[name].annotation) if name in type_.model_fields else None
    return _value_type(type_)


def _is_section(type_: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(type_, type) and issubclass(type_, BaseModel)


def _value_type(type_: object) -> object:
    """Return the type of the values in a table of user-defined names; None for other types."""
    return _without_none(get_args(type_)[1]) if get_origin(type_) is dict else None


def _without_none(annotation: object) -> object:
    """Return ``HubSection`` for ``HubSection | None``; return other types unchanged."""
    members = [member for member in get_args(annotation) if member is not type(None)]
    is_optional = type(None) in get_args(annotation)
    return members[0] if is_optional and len(members) == 1 else annotation
