"""The table of what the web process serves: packages with routes, templates, static files and translations.

A package is named by a string and imported at the start of the process, as the groups of the command line are.
"""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from starlette.routing import BaseRoute


@dataclass(frozen=True, slots=True)
class Mount:
    """A part of the site."""

    name: str  #: of its static files: /static/NAME/…
    where: str  #: module:name of its list of routes
    is_console: bool = False  #: it has the start page


@dataclass(frozen=True, slots=True)
class Part:
    """A part that was imported."""

    name: str
    folder: Path
    routes: list[BaseRoute]
    is_console: bool


MOUNTS = (
    Mount("console", "semq.console.routes:ROUTES", is_console=True),
    Mount("web", "semq.web.own_routes:ROUTES"),
)


def present() -> list[Part]:
    """Import the parts that are installed; routes of an earlier one come first."""
    return [_part(mount) for mount in MOUNTS if _is_installed(mount.where.partition(":")[0])]


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its package
        return False


def _part(mount: Mount) -> Part:
    module_name, _, name = mount.where.partition(":")
    module: Any = import_module(module_name)
    return Part(mount.name, Path(module.__file__).parent, list(getattr(module, name)), mount.is_console)
