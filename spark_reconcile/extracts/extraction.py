"""``semq reconcile extract`` and ``collect``: from a node's ledger to the folder that the reconciliation reads.

``extract`` runs beside its node, started by an operator or by the node's scheduler (``--nightly``). ``collect`` runs
beside the hub's storage, as an application of the institution that receives the extracts.
"""

import argparse
import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import msgspec
import psycopg

from semq import __version__
from semq.clock import Clock
from semq.config import Settings as NodeSettings
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres.ledger_partitions import oldest
from semq.store.reader import connection_parameters
from spark_reconcile.days import Calendar, Window, which_date
from spark_reconcile.errors import BadExtract, BadRunRequest, BadSettings, LedgerAway
from spark_reconcile.extracts.delivery import DELIVERED, PIECE_BYTES, Collector, deliver
from spark_reconcile.extracts.extract import LedgerOrigin, extract_ledger
from spark_reconcile.extracts.ledger import Disclosure
from spark_reconcile.extracts.manifest import MANIFEST_FILE, Manifest, Sign, date_folder, folder_of, read_manifest
from spark_reconcile.extracts.parcel import finished_manifest
from spark_reconcile.extracts.signatures import signer_of_node, verifier
from spark_reconcile.node import DATABASE_VARIABLE, AskedNode, asked_node, node_settings
from spark_reconcile.run.runs import dates
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place

NIGHTS = 7  # number of last completed dates for which ``--nightly`` makes the missing extracts
PrintMessage = Callable[[str], None]
Arguments = argparse.Namespace


@dataclass(frozen=True, slots=True)
class ExtractionTask:
    """The ledger to extract, the place of the extract, and its delivery."""

    origin: LedgerOrigin
    database: str
    root: Place
    calendar: Calendar
    disclosure: Disclosure
    deliver_to: str = ""  #: target address; empty: the extract is not delivered
    node: AskedNode | None = None  #: the node that sends the extract
    piece_bytes: int = PIECE_BYTES
    sign: Sign | None = None

    def folder(self, day: date) -> Place:
        return self.root / date_folder(day) / folder_of(self.origin.node, self.origin.store)


def extract(
    arguments: Arguments, settings: ReconcileSettings, clock: Clock, print_message: PrintMessage
) -> tuple[int, dict[str, object]]:
    """Extract one date, or with ``--nightly`` those of the last NIGHTS completed dates that have no complete extract.

    If a target is configured, deliver the extracts; with ``--nightly`` also unsent ones of the last NIGHTS dates, and
    remove old ones that were delivered.
    """
    task = _extraction_task(arguments, settings)
    yesterday = task.calendar.date_of(int(clock.wall().timestamp() * 1000)) - timedelta(days=1)
    manifests: list[Manifest] = []
    losses: list[str] = []
    with _connected(task.database) as connection:
        if arguments.nightly:
            days = list(_missing_nights(task, connection, yesterday))
        else:
            days = [which_date(arguments.business_date, task.calendar, clock)]
            _refuse_if_dropped(task.folder(days[0]), connection)
        for day in days:
            before = _present_manifest(task.folder(day))
            manifests.append(
                extract_ledger(connection, task.root, task.origin, day, task.calendar, clock,
                               disclosure=task.disclosure, sign=task.sign)
            )  # fmt: skip
            print_message(f"{day}: {manifests[-1].rows:,} lines of {manifests[-1].source} in {task.folder(day)}")
            losses += _loss(before, manifests[-1])
    for loss in losses:  # at the end, because the node logs the last messages only
        print_message(loss)
    if arguments.nightly:  # extracts of earlier nights may not have been sent
        days = [yesterday - timedelta(days=back) for back in range(NIGHTS)]
    documents = asyncio.run(_deliver(task, days)) if task.deliver_to else 0
    if documents:
        print_message(f"documents sent to {task.deliver_to}: {documents}")
    if arguments.nightly and settings.extracts_keep_days:
        _remove_delivered(task, yesterday - timedelta(days=max(settings.extracts_keep_days, NIGHTS)))
    extracts = [msgspec.to_builtins(manifest) for manifest in manifests]
    facts = extracts[0] if len(extracts) == 1 and not arguments.nightly else {"extracts": extracts}
    return 0, {**facts, "outcome": "extracted", "exit_code": 0, "documents": documents}


def _remove_delivered(task: ExtractionTask, before: date) -> None:
    """Remove the ledger's extracts of earlier dates that were delivered: the hub's storage has them."""
    for day in dates(task.root) if task.root.is_local else ():
        if day < before and (task.folder(day) / DELIVERED).exists():
            task.folder(day).remove()
            with suppress(OSError):  # other ledgers have extracts of the date
                Path((task.root / date_folder(day)).path).rmdir()


def _loss(before: Manifest | None, now: Manifest) -> list[str]:
    """Return a warning if the ledger has fewer lines of a date than its extract before had."""
    if before is None or before.window != now.window or before.rows <= now.rows:
        return []
    gone = before.rows - now.rows
    return [f"{now.business_date}: {gone:,} lines are gone since the extract before: was the store restored?"]


def _missing_nights(task: ExtractionTask, connection: psycopg.Connection, last: date) -> Iterator[date]:
    """Yield those of the NIGHTS dates up to ``last`` that lack a complete extract of their present lines, oldest first.

    Dates before the first line of the ledger are left out.
    """
    row = connection.execute("SELECT floor(extract(epoch FROM min(at)) * 1000)::bigint FROM semq_ledger").fetchone()
    first = task.calendar.date_of(row[0]) if row and row[0] is not None else last
    for day in (last - timedelta(days=back) for back in reversed(range(NIGHTS))):
        if day >= min(first, last) and not _is_complete(task.folder(day), connection):
            yield day


def _is_complete(folder: Place, connection: psycopg.Connection) -> bool:
    """Return whether an extract contains the whole date, as the ledger has it now.

    Lines are added to a past date after a clock was set back, and taken away by a restored backup.
    """
    manifest = _present_manifest(folder)
    if manifest is None or manifest.watermark < manifest.window_end:
        return False
    extent = _extent(connection, manifest.window)
    return extent == (manifest.rows, manifest.seq_last) or _is_dropped(connection, manifest, extent)


def _refuse_if_dropped(folder: Place, connection: psycopg.Connection) -> None:
    manifest = _present_manifest(folder)
    if manifest is not None and _is_dropped(connection, manifest, _extent(connection, manifest.window)):
        raise BadRunRequest(
            "The ledger no longer has all lines of this date; the earlier extract was kept.", folder=str(folder)
        ).with_remedy("To replace it nevertheless, remove its folder first.")


def _present_manifest(folder: Place) -> Manifest | None:
    try:
        return read_manifest(finished_manifest(folder))
    except BadExtract:
        return None


def _extent(connection: psycopg.Connection, window: Window) -> tuple[int, int | None]:
    """Return the number of lines in a window of the ledger, and the highest number of a line."""
    row = connection.execute(
        "SELECT count(*), max(number) FROM semq_ledger WHERE at >= to_timestamp(%s) AND at < to_timestamp(%s)",
        [window.start / 1000, window.end / 1000],
    ).fetchone()
    return (row[0], row[1]) if row else (0, None)


def _is_dropped(connection: psycopg.Connection, manifest: Manifest, extent: tuple[int, int | None]) -> bool:
    """Return whether lines of an extract are missing in the ledger because their retention period has ended."""
    first = oldest(connection)
    if first is None or extent[0] >= manifest.rows:
        return False
    return manifest.window_start < datetime.combine(first, time(), UTC).timestamp() * 1000


async def _deliver(task: ExtractionTask, days: list[date]) -> int:
    """Send the extracts that were never sent, or have changed since they were sent; return the number of documents."""
    assert task.node is not None
    async with task.node.client() as client:
        folders = [task.folder(day) for day in sorted(days)]
        return sum([await deliver(client, folder, task.deliver_to, task.piece_bytes) for folder in folders
                    if (folder / MANIFEST_FILE).exists()])  # fmt: skip


def _extraction_task(arguments: Arguments, settings: ReconcileSettings) -> ExtractionTask:
    """Return the task described by the options (``--node``), else by the node's configuration (``--config``)."""
    if arguments.node:
        database = arguments.database_url or os.environ.get(DATABASE_VARIABLE, "")
        if not database:
            raise BadRunRequest("The node's database is unknown: give --database-url.")
        origin = LedgerOrigin(arguments.node, arguments.store, arguments.role, semq_version=__version__)
        disclosure = Disclosure(_salt(arguments.salt_file), arguments.type_in_clear)
        return ExtractionTask(origin, database, Place.at(settings.extracts), settings.calendar, disclosure)
    if arguments.config is None:
        raise BadRunRequest("The ledger is unknown: give --config with the node's file, or --node and --database-url.")
    node = node_settings(arguments.config, arguments.institution)
    configured = node.extract
    salt_file = arguments.salt_file or configured.salt_file
    type_in_clear = arguments.type_in_clear or configured.type_in_clear
    return ExtractionTask(
        origin=_origin(node),
        database=arguments.database_url or os.environ.get(DATABASE_VARIABLE) or _database_of(node),
        root=Place.at(arguments.extracts or node.extracts),
        calendar=Calendar(arguments.zone or configured.zone, arguments.cutoff or configured.cutoff),
        disclosure=Disclosure(_salt(salt_file), type_in_clear),
        deliver_to=configured.deliver_to,
        node=asked_node(None, arguments.config, arguments.institution),
        piece_bytes=configured.piece_bytes,
        sign=signer_of_node(node),
    )


def _origin(settings: NodeSettings) -> LedgerOrigin:
    node = settings.node
    store = f"{node.semq_id}.{node.semq_db_id}"
    return LedgerOrigin(str(settings.address), store, node.kind, semq_version=__version__)


def _database_of(node: NodeSettings) -> str:
    """Return the URL of the configured database, or of the embedded server if it runs. Raises LedgerAway."""
    url = node.database.dsn
    if url is None and node.data_dir.exists():
        url = EmbeddedPostgres(node.data_dir).running_url()
    if url is None:
        raise LedgerAway("The embedded database of the node does not run.", data_dir=str(node.data_dir)).with_remedy(
            "Start the node, then repeat the command."
        )
    return url


def _salt(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        salt = file.read_bytes().strip()
    except OSError as error:
        raise BadSettings("The salt cannot be read.", file=str(file), why=str(error.strerror)) from error
    if len(salt) < 6:
        raise BadSettings("The salt is too short: it could be guessed.", file=str(file), bytes=len(salt))
    return salt


@contextmanager
def _connected(url: str) -> Iterator[psycopg.Connection]:
    """Yield a connection. Each query has a transaction of its own: none lasts while files are signed."""
    try:
        parameters = connection_parameters(url.replace("postgresql+psycopg://", "postgresql://", 1), "semq-extract")
        connection = psycopg.connect(**parameters, autocommit=True)
    except psycopg.Error as error:
        raise LedgerAway(why=type(error).__name__) from error
    with connection:
        yield connection


def collect(
    arguments: Arguments, settings: ReconcileSettings, clock: Clock, print_message: PrintMessage
) -> tuple[int, dict[str, object]]:
    """Move delivered extracts from an inbox to the hub's storage, until no document arrives for ``--idle`` seconds.

    The exit code is 65 if a document was refused. With ``settings.trust``, extracts need signatures.
    """
    node = asked_node(arguments.node, arguments.config, arguments.institution)
    verify = verifier(Path(settings.trust), clock) if settings.trust else None
    collector = Collector(Place.at(settings.extracts), verify)
    with collector.lock():
        refused = asyncio.run(_collect(node, arguments.user, arguments.idle, collector, print_message))
    sources = [f"{manifest.business_date} {manifest.source}" for manifest in collector.received]
    code = 65 if refused else 0
    outcome = "refused" if refused else "collected"
    return code, {"outcome": outcome, "exit_code": code, "extracts": sources, "refused": refused}


async def _collect(
    node: AskedNode, user: str, idle_s: float, collector: Collector, print_message: PrintMessage
) -> list[str]:
    refused = []
    async with node.client() as client, client.receive(user, idle_s=idle_s) as documents:
        async for document in documents:
            try:
                manifest = await asyncio.to_thread(collector.accept, document)
            except BadExtract as error:
                print_message(f"{document.lk0} from {document.source}: {error.advice()}")
                refused.append(document.lk0)
                await document.reject()
                continue
            await document.ack()
            if manifest is not None:
                print_message(f"{manifest.business_date}: {manifest.rows:,} lines of {manifest.source} have arrived")
    return refused
