"""``semq db backup|restore``: backups of a node, made while it works.

Commands import psycopg and the store themselves, so that other commands start quickly.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semq.cli.node.database import database, group
from semq.cli.output.printer import Output
from semq.cli.session import FileOption, InstitutionOption, JsonOption, read_config
from semq.moments import utc_text
from semq.sizes import size

if TYPE_CHECKING:
    from semq.config import Settings


@group.command()
def backup(
    config: FileOption,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The backup is a new folder in this one.")],
    keys: Annotated[
        bool,
        typer.Option("--keys", help="Also keys, certificates, passwords of roles and FILE, as secret as they are."),
    ] = False,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", min=1, help="Then delete older backups of this node but N.")
    ] = None,
    institution: InstitutionOption = None,
    json: JsonOption = False,
) -> None:
    """Back up the database of a node, also while it works; without its keys, unless --keys is given."""
    from semq.store import backup as store_backup

    settings, out, now = read_config(config, institution), Output(as_json=json), datetime.now(UTC)
    node = str(settings.address)
    place = folder / f"{node}-{now:%Y%m%dT%H%M%SZ}"
    with database(config, institution) as url:
        out.progress(f"dumping the database of {node}")
        files = {**_files(settings), "node.toml": config} if keys else {}
        note = store_backup.make(url, place, store_backup.BackupSubject(node, utc_text(now)), files)
    deleted, unknown = store_backup.delete_old(place, node, keep) if keep else ([], [])
    dump_bytes = (place / store_backup.DUMP).stat().st_size
    facts = {"backup": str(place), "bytes": dump_bytes, "revision": note.revision, "keys": keys, "deleted": deleted}
    facts["unknown"] = unknown
    out.result(facts, f"{place}: {size(dump_bytes)}, tables {note.revision}", *(f"deleted: {name}" for name in deleted))
    for name in unknown:
        out.notice(f"{folder / name} stays: its {store_backup.NOTE} is of no backup of SEMQ, or damaged. Move it away.")
    if not keys:
        out.notice(f"The keys are not in it: {settings.pki_dir}; --keys includes them.")


@group.command()
def restore(
    config: FileOption,
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="Folder that `semq db backup` has made.")],
    institution: InstitutionOption = None,
    json: JsonOption = False,
) -> None:
    """Restore a backup into an empty database, and its keys if the node has none. The node must not run."""
    from functools import partial

    from semq.cli.errors import OtherNode
    from semq.store import backup as store_backup
    from semq.store.postgres.roles import restore_role

    settings, out = read_config(config, institution), Output(as_json=json)
    note = store_backup.check(backup)
    if note.node != str(settings.address):
        raise OtherNode("The backup is of another node.", answers=note.node, configured=str(settings.address))
    with database(config, institution) as url:
        store_backup.refuse_used(url)
        copied, kept = store_backup.restore_files(backup, _files(settings))
        out.progress(f"restoring the database of {note.node}")
        store_backup.restore(url, backup, note, partial(restore_role, data_dir=settings.data_dir))
    facts = {"node": note.node, "made": note.made, "revision": note.revision, "copied": copied, "kept": kept}
    out.result(
        facts,
        f"{note.node}: as of {note.made}, tables {note.revision}",
        *(f"restored: {name}" for name in copied),
        *(f"left as it is: {name}" for name in kept),
    )
    out.notice(f"Now: semq node run --config {config}; then semq node missing --config {config}")


def _files(settings: "Settings") -> dict[str, Path]:
    return {"pki": settings.pki_dir, "roles": settings.data_dir / "roles"}
