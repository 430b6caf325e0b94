"""Rows of an older SEMQ, from any database that SQLAlchemy reads, or from CSV files. Few rows are in memory at a time.

Rows of a database are in the order of record numbers, rows of a CSV file in the order of the file. Methods block, and
are called by one thread at a time.
"""

import csv
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import ColumnClause, Label, TableClause, case, column, create_engine, func, inspect, select, table
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from semq.legacy.errors import BadMapping, DriverMissing, NoOldTables, SourceUnavailable, UnreadableSource
from semq.legacy.mapping import REQUIRED, OldTable, OldTables
from semq.legacy.old_rows import OldRowRefused, Reason

ROWS = 200  # rows fetched at a time
SMALL = 1 << 16  # size up to which a payload is read with the row
FIELD_MAX = 256 << 20  # characters of a field of CSV
SQLITE = (".db", ".sqlite", ".sqlite3")
# Drivers for URLs that name none (the operator's guide); SQLAlchemy has other defaults.
DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}
Values = dict[str, Any]  # values of a row, by meaning
PAYLOAD, SIZE = "payload", "size"  # keys of ``Values``
IDENTITY = ("source", "lk0_node", "lk0_semq_id", "lk0_semq_db_id", "lk0_object_id")  # beside the record number


class OldSource(Protocol):
    """A database or files of an older SEMQ."""

    name: str  #: URL without the password, or path

    def has(self, table: OldTable) -> bool:
        """Whether the source has a table; only then ``rows`` and ``payload`` may be called.

        Raises BadMapping if a required column is missing.
        """

    def rows(self, table: OldTable) -> Iterator[Values]:
        """Yield the rows; payloads larger than SMALL may be missing."""

    def payload(self, table: OldTable, row: Values) -> Any:
        """Return the payload of a row, of any size. Raises OldRowRefused if several rows have the row's identity."""

    def close(self) -> None:
        """Close connections."""


def open_source(text: str, mapping: OldTables) -> OldSource:
    """Open the database of a URL, a file of SQLite, a CSV file, or a folder of CSV files.

    Raises NoOldTables, BadMapping, DriverMissing, SourceUnavailable, UnreadableSource.
    """
    path = Path(text)
    source: OldSource
    if "://" in text:
        source = DatabaseSource(_url(text))
    elif path.suffix.lower() in SQLITE:
        source = DatabaseSource(_sqlite(path))
    else:
        source = CsvSource(path)
    try:
        if not any(source.has(table) for table in mapping.tables):
            raise NoOldTables(source=source.name, tables=", ".join(table.name for table in mapping.tables))
    except BaseException:
        source.close()
        raise
    return source


def _url(text: str) -> URL:
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise SourceUnavailable("The URL cannot be read.") from error
    return url.set(drivername=DRIVERS.get(url.drivername, url.drivername))


def _sqlite(path: Path) -> URL:
    if not path.is_file():
        raise SourceUnavailable(f"There is no file {path}.")
    return URL.create("sqlite", database=f"file:{path.resolve()}", query={"mode": "ro", "uri": "true"})


class DatabaseSource:
    """A database. Large payloads are read on a connection of their own."""

    def __init__(self, url: URL) -> None:
        self.name = url.render_as_string(hide_password=True)
        self._exits = ExitStack()
        with self._faults():
            self._engine: Engine = create_engine(url, connect_args=_arguments(url))
            self._exits.callback(self._engine.dispose)
            self._lookups = self._exits.enter_context(self._engine.connect())
            self._columns: dict[str, set[str]] = {}

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Raise DriverMissing or SourceUnavailable, which show no password, instead of errors of the database."""
        try:
            yield
        except (NoSuchModuleError, ModuleNotFoundError) as error:
            raise DriverMissing(source=self.name, cause=str(error)) from error
        except (SQLAlchemyError, sqlite3.Error, OSError, UnicodeError) as error:
            cause = getattr(error, "orig", None) or error
            raise SourceUnavailable(source=self.name, cause=str(cause)[:300]) from error

    def has(self, table: OldTable) -> bool:
        with self._faults():
            schema, _, name = table.name.rpartition(".")
            inspector = inspect(self._lookups)
            if not inspector.has_table(name, schema=schema or None):
                return False
            self._columns[table.kind] = {entry["name"] for entry in inspector.get_columns(name, schema=schema or None)}
        check_columns(table, self._columns[table.kind], self.name)
        return True

    def rows(self, table: OldTable) -> Iterator[Values]:
        present = self._columns[table.kind]
        chosen = {meaning: name for meaning, name in table.columns.items() if name in present and meaning != PAYLOAD}
        number: ColumnClause[object] = column(table.columns["object_id"])
        labels: list[Label[object]] = [column(name).label(meaning) for meaning, name in chosen.items()]
        if (payload := table.columns.get(PAYLOAD, "")) in present:
            body: ColumnClause[object] = column(payload)
            labels += [func.length(body).label(SIZE), case((func.length(body) <= SMALL, body)).label(PAYLOAD)]
        query = select(*labels).select_from(_table_clause(table)).order_by(number)
        with self._faults(), self._engine.connect() as connection:
            options = {"stream_results": True, "yield_per": ROWS}
            for row in connection.execution_options(**options).execute(query):
                yield dict(row._mapping)  # noqa: SLF001 - a public attribute of SQLAlchemy's rows

    def payload(self, table: OldTable, row: Values) -> Any:
        if row[PAYLOAD] is not None or row[SIZE] is None:
            return row[PAYLOAD]
        columns = table.columns
        body: ColumnClause[object] = column(columns[PAYLOAD])
        identity = {meaning: row[meaning] for meaning in IDENTITY if meaning in row}
        labels: list[object] = [column(columns[meaning]).label(meaning) for meaning in identity]
        query = select(body, *labels).select_from(_table_clause(table))
        query = query.where(column(columns["object_id"]) == row["object_id"], func.length(body) == row[SIZE])
        with self._faults():
            # Compared here, because databases compare NULL, and values of CHAR columns, in different ways.
            fitting = [old for old in self._lookups.execute(query) if tuple(old[1:]) == tuple(identity.values())]
            self._lookups.rollback()
        if len(fitting) > 1:
            raise OldRowRefused(Reason.SAME_ID, row["object_id"])
        return fitting[0][0] if fitting else None

    def close(self) -> None:
        self._exits.close()


class CsvSource:
    """A CSV file with the name of a table, or a folder of these files."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        csv.field_size_limit(FIELD_MAX)
        if not path.exists():
            raise UnreadableSource(f"There is no file {path}.")

    def _file(self, table: OldTable) -> Path | None:
        file = self._path / f"{table.name}.csv" if self._path.is_dir() else self._path
        return file if file.is_file() and file.stem.lower() == table.name.lower() else None

    def has(self, table: OldTable) -> bool:
        file = self._file(table)
        if file is None:
            return False
        with self._faults(file), file.open(encoding="utf-8-sig", newline="") as stream:
            header = next(csv.reader(stream), [])
        check_columns(table, set(header), str(file))
        return True

    @contextmanager
    def _faults(self, file: Path) -> Iterator[None]:
        try:
            yield
        except (OSError, UnicodeError, csv.Error) as error:
            raise UnreadableSource(file=str(file), cause=str(error)[:300]) from error

    def rows(self, table: OldTable) -> Iterator[Values]:
        file = self._file(table)
        assert file is not None
        with self._faults(file), file.open(encoding="utf-8-sig", newline="") as stream:
            for line in csv.DictReader(stream):
                yield {meaning: line.get(name) for meaning, name in table.columns.items() if name in line}

    def payload(self, table: OldTable, row: Values) -> Any:
        return row.get(PAYLOAD)

    def close(self) -> None:
        """Do nothing: no file is open between calls."""


def check_columns(table: OldTable, present: set[str], place: str) -> None:
    """Raise BadMapping if a required column is missing. ``place``: for the error."""
    missing = [table.columns[meaning] for meaning in REQUIRED[table.kind] if table.columns[meaning] not in present]
    if missing:
        raise BadMapping(f"{table.name} in {place} has no column {', '.join(missing)}.")


def _table_clause(old_table: OldTable) -> TableClause:
    schema, _, name = old_table.name.rpartition(".")
    return table(name, schema=schema or None)


def _arguments(url: URL) -> Mapping[str, object]:
    return {"check_same_thread": False} if url.get_backend_name() == "sqlite" else {}
