"""The names of all keys, derived from the sections; used to report unknown keys."""

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from semq.config.settings import Settings


def leads_somewhere(parts: list[str]) -> bool:
    """Whether a setting or a section has this path."""
    place: Any = Settings
    for part in parts:
        place = _step(place, part)
        if place is None:
            return False
    return True


def names_in(parts: list[str]) -> list[str]:
    """Return the keys of the section with this path; none if its names are user-defined."""
    place: Any = Settings
    for part in parts:
        place = _step(place, part)
    return list(place.model_fields) if _is_model(place) else []


def all_keys() -> list[list[str]]:
    """Return the path of every key, with NAME for a user-defined name."""
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
    """Return the type under a name: a section, a table of user-defined names, or a plain type; None if unknown."""
    if _is_model(place):
        return _plain(place.model_fields[name].annotation) if name in place.model_fields else None
    return _chosen(place)


def _is_model(place: Any) -> bool:
    return isinstance(place, type) and issubclass(place, BaseModel)


def _chosen(place: Any) -> Any:
    """Return the value type of a table of user-defined names, None for other types."""
    return _plain(get_args(place)[1]) if get_origin(place) is dict else None


def _plain(annotation: Any) -> Any:
    """Return ``HubSection`` for ``Hub | None``."""
    inner = [one for one in get_args(annotation) if one is not type(None)]
    optional = type(None) in get_args(annotation)
    return inner[0] if optional and len(inner) == 1 else annotation
