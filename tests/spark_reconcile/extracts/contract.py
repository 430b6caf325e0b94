"""The contract of the extract, for its readers: an Open Data Contract (ODCS 3) of the lines, and a JSON Schema of the
manifest.

`./run python -m tests.spark_reconcile.extracts.contract` writes it again. A released version may only get further
optional columns and fields; every other change is a new schema version.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from spark_reconcile.extracts import schema
from spark_reconcile.extracts.manifest import MANIFEST_FILE, Manifest, date_folder, folder_of
from tests.spark_reconcile.office import DAY

FILE = Path(schema.__file__).with_name("contract.json")
_LOGICAL = {pa.string(): "string", pa.bool_(): "boolean"}


def contract() -> dict[str, Any]:
    """Return the contract of the present schema version."""
    lines = {
        "name": "ledger_lines",
        "physicalName": f"{date_folder(DAY)}/{folder_of('1.10008', '1.1')}/part-*.parquet",
        "physicalType": "parquet",
        "description": "One row for each line of a node's ledger, without payload. The keys of the folders, business_date "
        "and ledger, are not columns of the files.",
        "dataGranularityDescription": "one line of one ledger; node, store and seq identify it",
        "properties": [
            {"name": column.name, "logicalType": _LOGICAL.get(column.arrow, "integer"),
             "physicalType": str(column.arrow), "required": column.required, "description": column.meaning}
            for column in schema.COLUMNS
        ],
    }  # fmt: skip
    manifest = {
        "name": "manifest",
        "physicalName": MANIFEST_FILE,
        "physicalType": "json",
        "description": "The files, counts and hashes of one extract, which exists as soon as its manifest does.",
        "customProperties": [{"property": "jsonSchema", "value": msgspec.json.schema(Manifest)}],
    }
    return {
        "apiVersion": "v3.0.2",
        "kind": "DataContract",
        "id": "semq-extract",
        "name": "SEMQ extract",
        "version": f"{schema.SCHEMA_VERSION}.0.0",
        "status": "active",
        "description": {
            "purpose": "The ledger of one node and business date, for the reconciliation and other readers."
        },
        "schema": [lines, manifest],
    }


def text() -> str:
    return json.dumps(contract(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
