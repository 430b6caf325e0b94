"""The check of one Parquet file against the manifest: length, hash, schema, number of rows, node and store of the rows.

A file is checked when its parcel arrives and again at every run, because a stored file may change. The whole file is
hashed. A run decodes only its footer and two columns; at arrival, and if Spark has failed, all columns are decoded, so
that the contents of one extract do not stop the runs of all.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from spark_reconcile.extracts.manifest import ExtractPart, Manifest
from spark_reconcile.extracts.schema import schema_difference
from spark_reconcile.sources.footer import BadFooter, Chunk, chunks
from spark_reconcile.storage import Place

Range = tuple[int, int] | None  # lowest and highest value of a column; None if the footer does not state it
# Compressions that both Arrow and Spark support.
READABLE_CODECS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4", "LZ4_RAW"}
_BATCH = 1 << 16  # lines
# A ledger's texts are short; longer ones that compress well could need too much memory.
VALUE_BYTES_MAX = 1 << 10  # largest average of a column chunk
CHUNK_BYTES_ACCEPTED = 16 << 20  # a smaller column chunk is accepted whatever its average


class CheckedFile(NamedTuple):
    """The result of the check of one file."""

    state: str  #: the state that the extract gets (``inputs.STATES``); empty if the file is correct
    note: str
    seq: tuple[Range, ...] = ()  #: range of ``seq`` in each row group
    at: tuple[Range, ...] = ()  #: range of ``at`` in each row group


def checked_file(part: ExtractPart, file: Place, manifest: Manifest) -> CheckedFile:
    """Compare a file with its description in the manifest."""
    try:
        size = file.size()
        if size < part.bytes:
            return CheckedFile("TRUNCATED", f"{part.name}: {max(size, 0)} of {part.bytes} bytes")
        if size > part.bytes or file.sha256() != part.sha256:
            return CheckedFile("ALTERED", part.name)
        return checked_contents(part, file, manifest)
    except OSError as error:
        return CheckedFile("TRUNCATED", f"{part.name}: {str(error)[:120]}")


def checked_contents(part: ExtractPart, file: Place, manifest: Manifest, *, decode_all: bool = False) -> CheckedFile:
    """Check the contents of a file whose length and hash are correct."""
    try:
        with file.open() as stream:
            footer = pq.read_metadata(stream)
            fault = schema_difference(footer.schema.to_arrow_schema())
            if fault:
                return CheckedFile("UNKNOWN_SCHEMA", f"{part.name}: {fault}")
            # A repeated long text in a dictionary takes memory only once.
            parquet = pq.ParquetFile(stream, metadata=footer, read_dictionary=["node", "store"])
            if parquet.metadata.num_rows != part.rows:
                return CheckedFile("OTHER_ROWS", f"{part.name}: {parquet.metadata.num_rows} rows, not {part.rows}")
            described = chunks(stream)
            obstacle = next(filter(None, map(_obstacle, described)), "")
            if obstacle:
                return CheckedFile("UNKNOWN_SCHEMA", f"{part.name}: {obstacle}")
            other = _other_node(parquet, manifest, None if decode_all else ["node", "store"])
            if other:
                return CheckedFile("OTHER_NODE", f"{part.name}: {other}")
            seq, at = (tuple(chunk.range for chunk in described if chunk.column == name) for name in ("seq", "at"))
            return CheckedFile("", "", seq, at)
    except (pa.ArrowException, BadFooter, OSError, UnicodeDecodeError) as error:
        return CheckedFile("TRUNCATED", f"{part.name}: {str(error)[:120]}")


def other_ranges(manifest: Manifest, checks: Sequence[CheckedFile]) -> str:
    """Return a difference between the ranges in the footers and in the manifest, for the report; empty without one."""
    for column, in_footers, in_manifest in (
        ("seq", [bounds for check in checks for bounds in check.seq], (manifest.seq_first, manifest.seq_last)),
        ("at", [bounds for check in checks for bounds in check.at], (manifest.at_first, manifest.at_last)),
    ):
        known = [bounds for bounds in in_footers if bounds is not None]
        if known and len(known) == len(in_footers) and in_manifest != (None, None):
            low, high = min(low for low, _ in known), max(high for _, high in known)
            if (low, high) != in_manifest:
                return f"its manifest states another range of {column} than {low} to {high}"
    return ""


def _obstacle(chunk: Chunk) -> str:
    """Return why Spark could not read a column chunk, or only with too much memory; empty if it could."""
    if chunk.codec not in READABLE_CODECS:
        return f"compressed by {chunk.codec}"
    if chunk.unpacked > max(CHUNK_BYTES_ACCEPTED, VALUE_BYTES_MAX * chunk.values):
        return f"{chunk.column[:80]} unpacks to {chunk.unpacked} bytes"
    return f"{chunk.column[:80]} lies in another file" if chunk.is_elsewhere else ""


def _other_node(parquet: pq.ParquetFile, manifest: Manifest, columns: list[str] | None) -> str:
    """Return a node or store in the rows that is not the manifest's; empty without one. ``columns``: those to decode.

    The rows are read, because the statistics in the footer may be false.
    """
    for batch in parquet.iter_batches(_BATCH, columns=columns, use_threads=False):
        for column, expected in (("node", manifest.node), ("store", manifest.store)):
            values = batch.column(column)
            if values.null_count or values.dictionary.to_pylist() != [expected]:
                unexpected = [value for value in values.unique().to_pylist() if value != expected]
                if unexpected:
                    return f"{column} {str(unexpected[0])[:80]}"
    return ""
