"""Which keys there are: the tree of settings, walked by name, derived from the sections to name what is unknown."""

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from semq.config.settings import Settings


def leads_somewhere(parts: list[str]) -> bool:
    """Is there a setting, or a section of settings, under this path?"""
    place: Any = Settings
    for part in parts:
        place = _step(place, part)
        if place is None:
            return False
    return True


def names_in(parts: list[str]) -> list[str]:
    """The keys of the section under this path; none if names there are chosen by people."""
    place: Any = Settings
    for part in parts:
        place = _step(place, part)
    return list(place.model_fields) if _is_model(place) else []


def all_keys() -> list[list[str]]:
    """The path of every key; NAME stands for a name that people choose."""
    return list(_paths(Settings))


def _paths(place: Any) -> Iterator[list[str]]:
    if _is_model(place):
        for name in place.model_fields:
            for rest in _paths(_step(place, name)):
                yield [name, *rest]
    elif _chosen(place) is not None:
        for rest in _paths(_chosen(place)):
            yield ["NAME", *rest]
    else:
        yield []


def _step(place: Any, name: str) -> Any:
    """What stands under a name: a section, a table of chosen names, a plain type; None if there is nothing."""
    if _is_model(place):
        return _plain(place.model_fields[name].annotation) if name in place.model_fields else None
    return _chosen(place)


def _is_model(place: Any) -> bool:
    return isinstance(place, type) and issubclass(place, BaseModel)


def _chosen(place: Any) -> Any:
    """The type of the values of a table whose names people choose, None if it is no such table."""
    return _plain(get_args(place)[1]) if get_origin(place) is dict else None


def _plain(annotation: Any) -> Any:
    """Hub for ``Hub | None``."""
    inner = [one for one in get_args(annotation) if one is not type(None)]
    optional = type(None) in get_args(annotation)
    return inner[0] if optional and len(inner) == 1 else annotation
