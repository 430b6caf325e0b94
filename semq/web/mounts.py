"""The parts of the web process as a table: packages with routes, templates, static files and translations.

A package is named by a string and imported at the start of the process, like the groups of the command line.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from starlette.routing import BaseRoute


@dataclass(frozen=True, slots=True)
class Mount:
    """A part of the site."""

    name: str  #: name in the address of its static files: /static/NAME/…
    where: str  #: module:name of its list of routes


@dataclass(frozen=True, slots=True)
class Part:
    """A part that was imported."""

    name: str
    folder: Path
    routes: list[BaseRoute]


MOUNTS = (
    Mount("console", "semq.console.routes:ROUTES"),
    Mount("web", "semq.web.own_routes:ROUTES"),
)


def parts() -> list[Part]:
    """Import the parts; routes of an earlier one come first."""
    return [_part(mount) for mount in MOUNTS]


def _part(mount: Mount) -> Part:
    module_name, _, name = mount.where.partition(":")
    module: Any = import_module(module_name)
    return Part(mount.name, Path(module.__file__).parent, list(getattr(module, name)))
