"""``semq db upgrade|check|current|grant|url``: tables of a node's database, and roles for applications.

Commands import psycopg, SQLAlchemy and Alembic themselves, so that other commands start quickly.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from semq.cli.errors import NothingGranted
from semq.cli.output.printer import Output
from semq.cli.session import FileOption, InstitutionOption, JsonOption, read_config

group = typer.Typer()


@group.command()
def upgrade(config: FileOption, institution: InstitutionOption = None, json: JsonOption = False) -> None:
    """Migrate the tables to the version that this SEMQ needs. Several processes may do this at the same time."""
    from semq.store.postgres import migration, schema_version

    with database(config, institution) as url:
        before = schema_version.current(url)
        revision = migration.upgrade(url)
    _print(json, {"before": before, "revision": revision}, f"tables: {before or 'none'} before, {revision} now")


@group.command()
def check(
    config: FileOption,
    backup: Annotated[
        Path | None,
        typer.Option("--backup", metavar="BACKUP", help="Check this backup instead: complete, unchanged, usable here."),
    ] = None,
    institution: InstitutionOption = None,
    json: JsonOption = False,
) -> None:
    """Check whether the tables have the version that this SEMQ needs; exit status 78 if not."""
    from semq.store.backup import check as check_backup
    from semq.store.postgres.schema_version import check, head

    if backup is not None:
        note = check_backup(backup)
        facts = {"ok": True, "revision": note.revision, "node": note.node, "made": note.made}
        _print(json, facts, f"{note.node}: as of {note.made}, tables {note.revision}, by SEMQ {note.semq}")
        return
    with database(config, institution) as url:
        check(url)
    _print(json, {"ok": True, "revision": head()}, f"tables: {head()}, as needed")


@group.command()
def current(config: FileOption, institution: InstitutionOption = None, json: JsonOption = False) -> None:
    """Show the version of the tables, and the version that this SEMQ needs."""
    from semq.store.postgres.schema_version import current, head

    with database(config, institution) as url:
        revision = current(url)
    _print(json, {"revision": revision, "needed": head()}, f"tables: {revision or 'none'}, needed: {head()}")


@group.command()
def grant(
    config: FileOption,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="Name of the Postgres role, for instance erp.")],
    send: Annotated[bool, typer.Option("--send", help="Right to call semq_send and semq_status.")] = False,
    receive: Annotated[
        bool, typer.Option("--receive", help="Right to call semq_receive, semq_piece, semq_done and semq_park.")
    ] = False,
    read: Annotated[
        bool, typer.Option("--read", help="Right to read queues and ledger without payloads, for monitoring.")
    ] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Remove the given rights; without any, all rights.")] = False,
    institution: InstitutionOption = None,
    json: JsonOption = False,
) -> None:
    """Create a database role for an application, or change its rights. A new role has the given rights only, and a
    schema of its own.
    """
    from semq.store.postgres import roles

    rights = [name for name, is_given in (("send", send), ("receive", receive), ("read", read)) if is_given]
    out, data_dir = Output(as_json=json), read_config(config, institution).data_dir
    is_new = False
    with database(config, institution) as database_url:
        if revoke:
            roles.revoke(database_url, role, rights or list(roles.RIGHTS))
        elif not rights:
            raise NothingGranted
        else:
            password = roles.new_password()
            is_new = roles.grant(
                database_url, role, rights, password, partial(roles.keep_password, data_dir, role, password)
            )
        rights_now = roles.rights_of(database_url, role)
    facts = {"role": role, "made": is_new, "rights": rights_now}
    out.result(facts, f"{role} may: {', '.join(rights_now) or 'nothing'}")
    if is_new and not json:
        out.notice(f"{role} was created. `semq db url --role {role} --config {config}` prints its URL.")


@group.command()
def url(
    config: FileOption,
    role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="Role that `semq db grant` has created; default: the owner.")
    ] = None,
    libpq: Annotated[
        bool, typer.Option("--libpq", help="Print the form for psql and drivers instead of that for SQLAlchemy.")
    ] = False,
    institution: InstitutionOption = None,
    json: JsonOption = False,
) -> None:
    """Print the URL of the node's database, with the name and password of a role for applications or of the owner."""
    from semq.store.postgres import roles

    settings = read_config(config, institution)
    with database(config, institution) as owner_url:
        role_url = owner_url
        if role is not None:
            _check_role(owner_url, role)
            role_url = roles.url_for(owner_url, role, settings.data_dir, embedded=settings.database.dsn is None)
    printed_url = role_url if libpq else role_url.replace("postgresql://", "postgresql+psycopg://", 1)
    if role is None and not json:
        Output(as_json=json).notice(
            "This is the owner of the database, who may read and change everything. For an application create a role:"
            " `semq db grant erp --send --receive`, then `semq db url --role erp`."
        )
    _print(json, {"url": printed_url}, printed_url)


def _check_role(url: str, role: str) -> None:
    from semq.config.nearest import did_you_mean
    from semq.store.postgres import roles
    from semq.store.postgres.errors import RoleRefused

    roles.check_name(role)
    if role not in (logins := roles.logins(url)):
        raise RoleRefused(f"There is no such role{did_you_mean(role, logins) or '.'}", role=role).with_remedy(
            f"Correct the name, or create the role: `semq db grant {role} --send --receive`."
        )


def _print(json: bool, data: dict[str, object], text: str) -> None:
    Output(as_json=json).result(data, text)


@contextmanager
def database(config: Path, institution: str | None) -> Iterator[str]:
    """Yield the URL of the node's database; start an embedded server that does not run, and stop it afterwards."""
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
