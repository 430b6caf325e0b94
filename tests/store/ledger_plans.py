"""Plans of the statements that a query sends: how many scans of partitions of the ledger they have."""

import json
import re
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, event

PARTITION = re.compile(r'"Relation Name": "semq_ledger_\d{8}"')


def scans_of(connection: Connection, query: Callable[[], object]) -> list[int]:
    """Run a query; return the number of scans of partitions in the plan of each of its statements on the ledger."""
    statements: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    query()
    event.remove(connection, "before_cursor_execute", note)
    scans = []
    for statement, parameters in statements:
        if "FROM semq_ledger" in statement:
            [[plan]] = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
            scans.append(len(PARTITION.findall(json.dumps(plan))))
    connection.rollback()
    return scans
