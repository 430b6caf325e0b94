"""Damage to extracts whose manifest and footer stay correct."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from spark_reconcile.storage import Place


def damage_column(folder: Path, column: str) -> None:
    """Overwrite the pages of a column of an extract's only file; the manifest has the new hash."""
    (part,) = folder.glob("part-*.parquet")
    group = pq.read_metadata(part).row_group(0)
    chunk = next(group.column(n) for n in range(group.num_columns) if group.column(n).path_in_schema == column)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(part.read_bytes())
    content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    part.write_bytes(content)
    describe_file(part)


def describe_file(part: Path) -> None:
    """Set length and hash of the only file of an extract in its manifest."""
    manifest = json.loads((part.parent / "_manifest.json").read_text())
    place = Place.at(part)
    manifest["files"][0] |= {"bytes": place.size(), "sha256": place.sha256()}
    (part.parent / "_manifest.json").write_text(json.dumps(manifest))
