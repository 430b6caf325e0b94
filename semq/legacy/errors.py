"""Errors of the import, codes 2500–2599."""

from semq.errors import BadInput, Misconfigured, Unavailable


class BadMapping(Misconfigured):
    """The mapping file cannot be used."""

    code = "SEMQ-2501"
    remedy = "`semq import --print-mapping` prints the default; a mapping file only needs the differences."


class NoOldTables(BadInput):
    """The source has none of the tables to import."""

    code = "SEMQ-2502"
    remedy = "CSV files have the names of the tables (tb_0031.csv …). Other names of tables need a file for --mapping."


class DriverMissing(Misconfigured):
    """No driver for this kind of database is installed."""

    code = "SEMQ-2503"
    remedy = "Install the driver into the environment of semq (`pip install NAME`), or use CSV."


class SourceUnavailable(Unavailable):
    """The older database cannot be read."""

    code = "SEMQ-2504"
    remedy = "Check URL, password and rights; repeat the import, which continues after the rows in its journal."


class JournalUnusable(Misconfigured):
    """The journal of the import cannot be used."""

    code = "SEMQ-2505"
    remedy = "Name a writable file with --journal; use the same file for each repeat of an import."


class UnreadableSource(BadInput):
    """A CSV file cannot be read."""

    code = "SEMQ-2506"
    remedy = "It must be UTF-8 with a line of column names; --mapping names the columns and the encoding of payloads."
