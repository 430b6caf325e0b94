"""``semq db``: the tables of a node's database: which version they are, and bringing them up to date.

What it takes (SQLAlchemy, Alembic) is imported by the commands that need it, so that the others start quickly.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from semq.cli.desk import JsonOption, read_config
from semq.cli.output import Output

group = typer.Typer()
FileOption = Annotated[Path, typer.Option("--config", metavar="FILE", help="The node's TOML file.")]


@group.command()
def upgrade(config: FileOption, json: JsonOption = False) -> None:
    """Bring the tables to this version of SEMQ; safe to repeat, one at a time whoever starts it."""
    from semq.store import migrate

    with _database(config) as url:
        before = migrate.current(url)
        revision = migrate.upgrade(url)
    _tell(json, {"before": before, "revision": revision}, f"tables: {before or 'none'} before, {revision} now")


@group.command()
def check(config: FileOption, json: JsonOption = False) -> None:
    """Whether the tables are those of this version; exit status 78 if not."""
    from semq.store import migrate

    with _database(config) as url:
        migrate.check(url)
    _tell(json, {"ok": True, "revision": migrate.head()}, f"tables: {migrate.head()}, as this version needs them")


@group.command()
def current(config: FileOption, json: JsonOption = False) -> None:
    """The version of the tables, and the one that this version of SEMQ needs."""
    from semq.store import migrate

    with _database(config) as url:
        found = migrate.current(url)
    _tell(json, {"revision": found, "needed": migrate.head()}, f"tables: {found or 'none'}, needed: {migrate.head()}")


@group.command()
def url(config: FileOption, json: JsonOption = False) -> None:
    """The URL of the node's database, for applications that send in their own transaction; holds the password."""
    with _database(config) as found:
        address = found.replace("postgresql://", "postgresql+psycopg://", 1)
    _tell(json, {"url": address}, address)


def _tell(json: bool, data: dict[str, object], words: str) -> None:
    out = Output(as_json=json)
    if json:
        out.data(data)
    else:
        out.line(words)


@contextmanager
def _database(config: Path) -> Iterator[str]:
    """The URL of the node's database; an embedded server that does not run is started for as long as it is needed."""
    settings = read_config(config)
    if settings.database.dsn is not None:
        yield settings.database.dsn
        return
    from semq.store.embedded import EmbeddedPostgres

    embedded = EmbeddedPostgres(settings.data_dir)
    running = embedded.running_url() if settings.data_dir.exists() else None
    if running is not None:
        yield running
    else:
        with embedded as server:
            yield server.url
