"""Tables written by Spark: read in order; invalid bytes do not stop the report."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_reconcile.storage import Place
from spark_reconcile.tables import read_rows


def test_parts_are_read_in_order_and_other_files_are_ignored(tmp_path: Path) -> None:
    for part in (1, 0):
        pq.write_table(pa.table({"n": [2 * part, 2 * part + 1]}), tmp_path / f"part-0000{part}.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    assert [row["n"] for row in read_rows(Place.at(tmp_path))] == [0, 1, 2, 3]
    assert list(read_rows(Place.at(tmp_path / "none"))) == []


def test_invalid_bytes_in_texts_are_replaced(tmp_path: Path) -> None:
    ends = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 2, 4, 4)))
    result = pa.StringArray.from_buffers(3, ends, pa.py_buffer(b"\xffaok"), pa.py_buffer(b"\x03"))
    pq.write_table(pa.table({"text": result, "n": [1, 2, 3]}), tmp_path / "part-00000.parquet")
    assert list(read_rows(Place.at(tmp_path))) == [
        {"text": "\ufffda", "n": 1},
        {"text": "ok", "n": 2},
        {"text": None, "n": 3},
    ]
