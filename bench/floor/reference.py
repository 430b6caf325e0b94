"""The row changes of each node for a document, which the floor repeats.

They stay the same when nodes change fewer rows, so that different versions are compared with one floor. They are the
``rows_per_message`` of a saturated run of 8,000 documents of 1 KiB, with an earlier version that wrote more ledger
lines.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.floor.rows import RowChanges
from bench.network import A
from semq.installation.configuration import HUB

DOCUMENTS = 1000  # to which the figures below refer
ROLE_OF_PARTNERS = "b"

# By phase and role, then by table: rows inserted, updated and deleted for DOCUMENTS documents.
REFERENCE: dict[tuple[str, str], dict[str, tuple[int, int, int]]] = {
    ("online", "a"): {
        "tb_0031": (1000, 2800, 1000),
        "tb_0031_body": (1000, 0, 1000),
        "tb_0031_stream": (0, 2, 0),
        "semq_ledger": (4000, 0, 0),
    },
    ("online", "hub"): {"semq_ledger": (1000, 0, 0)},
    ("online", "b"): {
        "tb_0030": (1000, 2000, 1000),
        "tb_0030_body": (1000, 0, 1000),
        "tb_0030_ledger": (1000, 0, 1000),
        "tb_0030_stream": (0, 6, 0),
        "semq_ledger": (4000, 0, 0),
    },
    ("stored", "a"): {
        "tb_0031": (1000, 2900, 1000),
        "tb_0031_body": (1000, 0, 1000),
        "tb_0031_stream": (0, 2, 0),
        "semq_ledger": (4000, 0, 0),
    },
    ("stored", "hub"): {
        "tb_0031": (1000, 1000, 1000),
        "tb_0031_body": (1000, 0, 1000),
        "semq_ledger": (3000, 0, 0),
    },
    ("stored", "b"): {
        "tb_0030": (1000, 4000, 1000),
        "tb_0030_body": (1000, 0, 1000),
        "tb_0030_ledger": (1000, 0, 1000),
        "tb_0030_stream": (0, 3, 0),
        "semq_ledger": (5000, 0, 0),
    },
}


@dataclass(frozen=True, slots=True)
class TableWork:
    """The changes of each table for a number of documents."""

    tables: Mapping[str, RowChanges]
    documents: int

    def per_document(self, table: str) -> list[float]:
        changes = self.tables.get(table, RowChanges())
        return [round(n / self.documents, 2) for n in (changes.inserted, changes.updated, changes.deleted)]


def work_of(phase: str, name: str, partners: int) -> TableWork:
    """Return the reference work of a node; several partners share the documents."""
    is_partner = name not in (A, HUB)
    role = ROLE_OF_PARTNERS if is_partner else name
    tables = {table: RowChanges(*rows) for table, rows in REFERENCE[phase, role].items()}
    return TableWork(tables, DOCUMENTS * partners if is_partner else DOCUMENTS)
