"""All codes of errors, with meaning and remedy."""

from collections.abc import Iterator

from documentation.reference.cells import plain
from semq.cli.reference.error_codes import all_errors

RANGES = {"1": "Documents", "2": "Nodes, configuration, commands", "3": "Database", "4": "AMQP and transport",
          "5": "Seals and certificates", "6": "Reconciliation"}  # fmt: skip


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield "`semq errors lookup CODE` prints the same for one code."
    before = ""
    for row in sorted(all_errors(), key=lambda row: row["code"]):
        family = row["code"].removeprefix("SEMQ-")[0]
        if family != before:
            yield from ("", f"## {RANGES[family]}")
            before = family
        # A heading for each code: the search finds it first, whatever else mentions the code.
        yield from ("", f"### {row['code']}", "", plain(row["meaning"]))
        if row["remedy"]:
            yield from ("", f"→ {plain(row['remedy'])}")
