"""``semq import``: unfinished messages of an older SEMQ become documents of a node."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from semq.cli.errors import EXIT_REFUSED, EXIT_UNAVAILABLE
from semq.cli.output.printer import Output
from semq.cli.session import (
    TIMEOUT_S,
    ConfigOption,
    InstitutionOption,
    JsonOption,
    NodeOption,
    Session,
    TimeoutOption,
    on_node,
)

LINES_MAX = 20  # largest number of printed rows that were refused or have no answer


def import_rows(
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="URL|FILE", help="Older database: URL, SQLite file, CSV file, or folder of CSV files."
        ),
    ] = "",
    mapping: Annotated[
        Path | None, typer.Option("--mapping", metavar="FILE", help="TOML file with changes to the default mapping.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and count all rows; change nothing.")] = False,
    journal: Annotated[
        Path | None,
        typer.Option("--journal", metavar="FILE", help="List of imported rows; default: semq-import-ID.journal."),
    ] = None,
    rejects: Annotated[
        Path | None,
        typer.Option("--rejects", metavar="FILE", help="Write all rows that were not imported to a CSV file."),
    ] = None,
    resend_unanswered: Annotated[
        bool,
        typer.Option(
            "--resend-unanswered", help="Also send documents whose receiver does not say whether they have arrived."
        ),
    ] = False,
    print_mapping: Annotated[bool, typer.Option("--print-mapping", help="Print the default mapping, in TOML.")] = False,
    node: NodeOption = None,
    config: ConfigOption = None,
    hosted: InstitutionOption = None,
    json: JsonOption = False,
    timeout: TimeoutOption = TIMEOUT_S,
) -> None:
    """Import unfinished messages of an older SEMQ. A repeated import skips the rows that were imported. Exit status 1:
    some rows were refused; 69: the import stopped early, or receivers have not answered about some rows.
    """
    if print_mapping:
        from semq.legacy.mapping import DEFAULT

        Output(as_json=False).text(DEFAULT)
        return
    if not source:
        raise typer.BadParameter("Name the older database or file.", param_hint="--from")
    _import(
        source=source, mapping=mapping, dry_run=dry_run, journal=journal, rejects=rejects,
        resend_unanswered=resend_unanswered, node=node, config=config, hosted=hosted, json=json,
        timeout=timeout,
    )  # fmt: skip


@on_node
async def _import(
    session: Session,
    source: str,
    mapping: Path | None,
    dry_run: bool,
    journal: Path | None,
    rejects: Path | None,
    resend_unanswered: bool,
) -> None:
    from semq.legacy.process import run_import

    report = await run_import(
        session.client, source, mapping, dry_run=dry_run, journal=journal, rejects=rejects,
        resend_unanswered=resend_unanswered, progress=session.out.progress,
    )  # fmt: skip
    result = report.as_json()
    lines = [
        f"{name}: {', '.join(f'{number} {kind}' for kind, number in table.results.items()) or 'nothing'}"
        f" of {table.rows} rows"
        for name, table in report.tables.items()
    ]
    lines += [f"  {row['table']} {row['record']}: {_cause(row)}" for row in report.listed[:LINES_MAX]]
    if (unlisted := result["rejected"] + result["unanswered"] - LINES_MAX) > 0:
        lines.append(f"  and {unlisted} more: --rejects FILE lists all")
    session.out.result(result, *lines)
    if by_number := report.total("known_by_number"):
        session.out.notice(
            f"Rows known by their record number only: {by_number}. An earlier version wrote the journal; "
            "rows of another older database with the same numbers look the same (the operator's guide, *Import*)."
        )
    if report.stopped:
        session.out.notice(f"The import has stopped; repeat it. Reason: {report.stopped}")
    if report.stopped or result["unanswered"]:
        raise typer.Exit(EXIT_UNAVAILABLE)
    if result["rejected"]:
        raise typer.Exit(EXIT_REFUSED)


def _cause(row: Mapping[str, str]) -> str:
    reason, detail = row["reason"], row["detail"]
    return detail if detail.startswith(reason) else f"{reason}: {detail}"
