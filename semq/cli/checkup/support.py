"""``semq support-bundle``: facts about a node in one archive for its supporters, without secrets and documents.

Every part passes `Redaction`. Files with keys, passwords or documents are not read.
"""

import asyncio
import io
import json
import os
import platform
import re
import sys
import tarfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import asdict

from semq import __version__
from semq.cli.checkup.doctor import findings_of
from semq.cli.errors import UnusableFile
from semq.cli.output.printer import Output
from semq.cli.session import FileOption, InstitutionOption, JsonOption, environment, read_config
from semq.errors import SemqError
from semq.moments import utc_text
from semq.sizes import size

if TYPE_CHECKING:
    from semq.config import Settings

OF_SECRETS = re.compile(r"^SEMQ_.*(PASS|KEY|TOKEN|SECRET)", re.IGNORECASE)  # names of variables
PATIENCE_S = 5.0  # longest wait for each answer of the node
LOG_BYTES_MAX = 8 * 1024 * 1024  # the end of each log
# Operations of a running node, of those that it has: figures and states, no documents
OPERATIONS = (
    "node.status", "node.health", "queue.census", "stuck.causes", "job.list", "cert.show", "trust.list", "nodes.list",
    "stores.list", "hub.instances", "hub.health", "server.list",
)  # fmt: skip
# Beginnings of the lines of a Postgres log that can contain values of rows
WITH_VALUES = ("DETAIL:", "STATEMENT:", "CONTEXT:", "QUERY:")
# Severities of other lines; what follows a line without one belongs to the line before
SEVERITIES = ("LOG:", "HINT:", "NOTICE:", "WARNING:", "ERROR:", "FATAL:", "PANIC:", "INFO:")


def support_bundle(
    config: FileOption,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="The archive; default: in this folder, with a date.")
    ] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option("--log", metavar="FILE", help="A log to include, for instance of journalctl; can be repeated."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask at a terminal.")] = False,
    institution: InstitutionOption = None,
    json: JsonOption = False,
) -> None:
    """Collect facts about a node in an archive for its supporters: versions, settings without secrets, findings of
    doctor, states and figures, names of files, logs. Lists all parts before it writes; none has secrets or documents.
    """
    from semq.cli.checkup.redaction import Redaction

    settings, out = read_config(config, institution), Output(as_json=json)
    file = output or Path(f"semq-support-{settings.node.id}-{datetime.now(UTC):%Y%m%dT%H%MZ}.tar.gz")
    if file.exists():
        raise UnusableFile("The file exists already.", file=str(file))
    named = {settings.tls.passphrase_variable, settings.secrecy.bodies_key_variable}
    secrets = (value for name, value in os.environ.items() if name in named or OF_SECRETS.search(name))
    redact = Redaction(settings, secrets).redact
    parts = [(name, meaning, redact(text)) for name, meaning, text in _parts(settings, out, log or [])]
    for name, meaning, text in parts:
        out.notice(f"{size(len(text.encode())):>10}  {name:<22} {meaning}")
    if not yes and not json and sys.stdin.isatty():
        typer.confirm(f"Write these parts to {file}?", default=True, abort=True, err=True)
    _write(file, parts)
    facts = {"file": str(file), "parts": [name for name, _, _ in parts]}
    out.result(facts, f"{file}: look through it before you send it to anyone")


def _parts(settings: "Settings", out: Output, logs: list[Path]) -> Iterator[tuple[str, str, str]]:
    """Yield name, meaning and text of each part, before the redaction."""
    sections: tuple[tuple[str, str, Callable[[], object]], ...] = (
        ("versions.json", "SEMQ, Python, packages, machine", _versions),
        ("settings.json", "all settings and their origin; secrets as stars", lambda: _settings(settings)),
        ("doctor.json", "findings of `semq doctor`", lambda: _findings(settings)),
        ("node.json", "answers of the running node: states and counts", lambda: asyncio.run(_answers(settings))),
        ("files.json", "names, sizes and modes in the data folder", lambda: list(_files(settings.data_dir))),
    )
    for name, meaning, collect in sections:
        out.progress(f"collecting {name}")
        try:
            found = collect()
        except (SemqError, OSError) as error:  # a fault is a fact, too
            found = {"fault": str(error)}
        yield name, meaning, json.dumps(found, indent=1, default=str, ensure_ascii=False) + "\n"
    server_log = settings.data_dir / "postgres" / "server.log"
    if server_log.exists():
        yield "postgres.log", "log of the embedded Postgres, without values", without_values(_end_of(server_log))
    for number, path in enumerate(logs, start=1):
        yield f"log-{number}.txt", f"end of {path}", _end_of(path)


def _versions() -> dict[str, object]:
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "semq": __version__,
        "python": sys.version,
        "executable": sys.executable,
        "system": platform.platform(),
        "release": _release(),
        "processors": os.cpu_count(),
        "memory_bytes": pages * page_bytes,
        "time": utc_text(datetime.now(UTC)),
        "packages": dict(sorted((one.name, one.version) for one in distributions())),
        "variables": sorted(name for name in environment() if name.startswith("SEMQ_")),
    }


def _release() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def _settings(settings: "Settings") -> list[dict[str, str]]:
    return [{"key": row.key, "value": row.value, "origin": row.origin} for row in settings.explain()]


def _findings(settings: "Settings") -> list[dict[str, object]]:
    return [asdict(finding) for finding in asyncio.run(findings_of(settings, PATIENCE_S))]


async def _answers(settings: "Settings") -> dict[str, object]:
    """Return the answers of the running node by operation; for one that fails, its error."""
    from semq.app import Client
    from semq.config import reach

    answers: dict[str, object] = {}
    async with Client(reach.url_of(settings), patience_s=PATIENCE_S) as client:
        offered = {row["name"] for row in await client.request("node.operations", {}, timeout_s=PATIENCE_S)}
        for operation in OPERATIONS:
            if operation in offered:
                try:
                    answers[operation] = await client.request(operation, {}, timeout_s=PATIENCE_S)
                except SemqError as error:
                    answers[operation] = {"fault": str(error)}
    return answers


def _files(folder: Path) -> Iterator[dict[str, object]]:
    """Yield facts about the files of a data folder, but not about those inside of its database."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        facts = path.lstat()
        yield {
            "path": str(path), "bytes": facts.st_size, "mode": oct(facts.st_mode), "uid": facts.st_uid,
            "changed": utc_text(datetime.fromtimestamp(facts.st_mtime, UTC)),
        }  # fmt: skip
        if path.is_dir() and not path.is_symlink() and path.parent.name != "postgres":
            yield from _files(path)


def _end_of(path: Path) -> str:
    """Return the end of a log, from the beginning of a line. Raises UnusableFile."""
    try:
        with path.open("rb") as stream:
            begins = max(0, stream.seek(0, os.SEEK_END) - LOG_BYTES_MAX)
            stream.seek(begins)
            text = stream.read().decode("utf-8", "replace")
    except OSError as error:
        raise UnusableFile(str(error.strerror), file=str(path)) from error
    return text.partition("\n")[2] if begins else text


def without_values(log: str) -> str:
    """Return a log of Postgres without the lines that can contain values of rows."""
    kept, is_kept = [], False
    for line in log.splitlines(keepends=True):
        words = line.split()
        if any(word in words for word in (*SEVERITIES, *WITH_VALUES)):
            is_kept = not any(word in words for word in WITH_VALUES)
        if is_kept:
            kept.append(line)
    return "".join(kept)


def _write(file: Path, parts: list[tuple[str, str, str]]) -> None:
    """Write the archive, readable for its owner only. Raises UnusableFile."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, _, text in parts:
            member = tarfile.TarInfo(f"{file.name.removesuffix('.tar.gz')}/{name}")
            member.size, member.mode, member.mtime = len(text.encode()), 0o600, int(datetime.now(UTC).timestamp())
            archive.addfile(member, io.BytesIO(text.encode()))
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(content.getvalue())
    except OSError as error:
        raise UnusableFile(str(error.strerror), file=str(file)) from error
