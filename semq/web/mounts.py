"""The parts of the site: packages with routes, templates, static files and translations.

The table has the names of modules instead of the modules, because these modules import this package.
"""

from importlib import import_module
from pathlib import Path

from msgspec import Struct
from starlette.routing import BaseRoute


class Mount(Struct, frozen=True):
    """A part of the site."""

    name: str  #: its static files are at /static/NAME/…
    routes: str  #: module:name of its list of routes
    shown: tuple[str, ...] = ()  #: packages whose texts it shows, with translations of their own


class Part(Struct, frozen=True):
    """An imported part of the site."""

    name: str
    folder: Path  #: with templates and static files
    translations: list[Path]
    routes: list[BaseRoute]


MOUNTS = (
    Mount("console", "semq.console.routes:ROUTES", shown=("spark_reconcile",)),
    Mount("web", "semq.web.own_routes:ROUTES"),
)


def parts() -> list[Part]:
    """Import and return the parts; the routes of an earlier part take precedence."""
    return [_part(mount) for mount in MOUNTS]


def _part(mount: Mount) -> Part:
    module_name, _, name = mount.routes.partition(":")
    folders = [Path(str(import_module(shown).__file__)).parent for shown in (module_name, *mount.shown)]
    translations = [folder / "translations" for folder in folders]
    return Part(mount.name, folders[0], translations, list(getattr(import_module(module_name), name)))
