"""``semq db``: a node's database: version of its tables, migration, roles for applications.

psycopg, SQLAlchemy and Alembic are imported by the commands that need them, so that the others start quickly.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from semq.cli.errors import NothingGranted
from semq.cli.output.printer import Output
from semq.cli.session import FileOption, InstitutionOption, JsonOption, read_config

group = typer.Typer()


@group.command()
def upgrade(config: FileOption, institution: InstitutionOption = None, json: JsonOption = False) -> None:
    """Migrate the tables to this version of SEMQ; it is safe to repeat this, also from several processes."""
    from semq.store.postgres import migration, schema_version

    with _database(config, institution) as url:
        before = schema_version.current(url)
        revision = migration.upgrade(url)
    _print(json, {"before": before, "revision": revision}, f"tables: {before or 'none'} before, {revision} now")


@group.command()
def check(config: FileOption, institution: InstitutionOption = None, json: JsonOption = False) -> None:
    """Check whether the tables have the version that this SEMQ needs; exit status 78 if not."""
    from semq.store.postgres.schema_version import check, head

    with _database(config, institution) as url:
        check(url)
    _print(json, {"ok": True, "revision": head()}, f"tables: {head()}, as this version needs them")


@group.command()
def current(config: FileOption, institution: InstitutionOption = None, json: JsonOption = False) -> None:
    """Show the version of the tables, and the one that this SEMQ needs."""
    from semq.store.postgres.schema_version import current, head

    with _database(config, institution) as url:
        found = current(url)
    _print(json, {"revision": found, "needed": head()}, f"tables: {found or 'none'}, needed: {head()}")


@group.command()
def grant(
    config: FileOption,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="Name of a role of Postgres, for instance erp.")],
    send: Annotated[bool, typer.Option("--send", help="semq_send, semq_status.")] = False,
    receive: Annotated[bool, typer.Option("--receive", help="semq_receive, semq_piece, semq_done, semq_park.")] = False,
    read: Annotated[bool, typer.Option("--read", help="Queues and ledger without payloads, for monitoring.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Remove these rights, or all.")] = False,
    institution: InstitutionOption = None,
    json: JsonOption = False,
) -> None:
    """Create a role for an application that may call these functions only, or change its rights."""
    from semq.store.postgres import roles

    rights = [name for name, is_meant in (("send", send), ("receive", receive), ("read", read)) if is_meant]
    out, data_dir = Output(as_json=json), read_config(config, institution).data_dir
    is_new = False
    with _database(config, institution) as found:
        if revoke:
            roles.revoke(found, role, rights or list(roles.RIGHTS))
        elif not rights:
            raise NothingGranted
        else:
            password = roles.new_password()
            is_new = roles.grant(found, role, rights, password)
            if is_new:
                roles.keep_password(data_dir, role, password)
        now = roles.rights_of(found, role)
    made = f"{role} was made. Its address: `semq db url --role {role} --config {config}`"
    out.result({"role": role, "made": is_new, "rights": now}, f"{role} may: {', '.join(now) or 'nothing'}")
    if is_new and not json:
        out.notice(made)


@group.command()
def url(
    config: FileOption,
    role: Annotated[str | None, typer.Option(metavar="ROLE", help="Role made by `semq db grant`.")] = None,
    libpq: Annotated[bool, typer.Option("--libpq", help="For psql and drivers, not for SQLAlchemy.")] = False,
    institution: InstitutionOption = None,
    json: JsonOption = False,
) -> None:
    """Print the URL of the node's database with a password: of a role for applications, or of its owner."""
    from semq.store.postgres import roles

    settings = read_config(config, institution)
    with _database(config, institution) as found:
        if role is not None:
            _check_role(found, role)
            found = roles.url_for(found, role, settings.data_dir, embedded=settings.database.dsn is None)
    address = found if libpq else found.replace("postgresql://", "postgresql+psycopg://", 1)
    if role is None and not json:
        Output(as_json=json).notice(
            "This is the owner of the database, who may read and change everything. For an application make a role:"
            " `semq db grant erp --send --receive`, then `semq db url --role erp`."
        )
    _print(json, {"url": address}, address)


def _check_role(url: str, role: str) -> None:
    """Check that there is such a role. Raises RoleRefused, StoreUnavailable."""
    from semq.config import nearest
    from semq.store.postgres import roles
    from semq.store.postgres.errors import RoleRefused

    roles.check_name(role)
    if role not in (known := roles.logins(url)):
        near = nearest(role, known)
        raise RoleRefused(f"There is no such role{f'; did you mean {near}?' if near else '.'}", role=role).with_remedy(
            f"Correct the name, or make the role: `semq db grant {role} --send --receive`."
        )


def _print(json: bool, data: dict[str, object], words: str) -> None:
    out = Output(as_json=json)
    if json:
        out.data(data)
    else:
        out.line(words)


@contextmanager
def _database(config: Path, institution: str | None) -> Iterator[str]:
    """Yield the URL of the node's database; an embedded server that does not run is started meanwhile."""
    from semq.store.postgres.errors import StoreUnavailable

    settings = read_config(config, institution)
    if settings.database.dsn is not None:
        yield settings.database.dsn
        return
    if settings.institution is not None:
        raise StoreUnavailable("The Postgres server of the virtual server does not run.").with_remedy(
            "Start the virtual server (`semq server run`), which starts it."
        )
    from semq.store.embedded.server import EmbeddedPostgres

    embedded = EmbeddedPostgres(settings.data_dir)
    running = embedded.running_url() if settings.data_dir.exists() else None
    if running is not None:
        yield running
    else:
        with embedded as server:
            yield server.url
