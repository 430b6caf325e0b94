#!/bin/sh
# Polars 1.44.2 refuses a folder of Parquet files that also has a file of another kind, even if its name begins with "_" or ".".
# Expected: such files are skipped, as by Spark 4.3, PyArrow 26 and pandas 2.3. A pattern (extracts/**/*.parquet) is read; so is the
# folder with hidden_file_prefix=["_", "."], which is not the default.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check polars==1.44.2 pyarrow==26.0.1
cat >expected <<'EXPECTED'
pyarrow 2
polars InvalidOperationError
polars with a pattern 2
polars with hidden_file_prefix 2
EXPECTED
venv/bin/python >seen <<'PYTHON'
import pathlib
import polars as pl
import pyarrow.parquet as pq

folder = pathlib.Path("table/day=1")
folder.mkdir(parents=True)
pl.DataFrame({"number": [1, 2]}).write_parquet(folder / "part-0.parquet")
(folder / "_manifest.json").write_text("{}")
print("pyarrow", pq.read_table("table").num_rows)
try:
    print("polars", pl.scan_parquet("table").collect().height)
except pl.exceptions.InvalidOperationError as error:
    print("polars", type(error).__name__)
print("polars with a pattern", pl.scan_parquet("table/**/*.parquet").collect().height)
print("polars with hidden_file_prefix", pl.scan_parquet("table", hidden_file_prefix=["_", "."]).collect().height)
PYTHON
cat seen
cmp -s seen expected
