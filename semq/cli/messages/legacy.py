"""``semq import``: unfinished rows of an older SEMQ become documents of a node (``semq.legacy``)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

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

EXIT_REFUSED, EXIT_UNAVAILABLE = 1, 69
LINES_MAX = 20  # rows that are listed for people


def import_rows(
    source: Annotated[
        str,
        typer.Option("--from", metavar="URL|FILE", help="Database URL, SQLite file, CSV file or folder of them."),
    ] = "",
    mapping: Annotated[
        Path | None, typer.Option("--mapping", metavar="FILE", help="TOML: what differs from --print-mapping.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and count everything, change nothing.")] = False,
    journal: Annotated[
        Path | None, typer.Option("--journal", metavar="FILE", help="Rows taken so far; semq-import-ID.journal.")
    ] = None,
    rejects: Annotated[
        Path | None, typer.Option("--rejects", metavar="FILE", help="Write all rows that were not taken as CSV.")
    ] = None,
    resend_unanswered: Annotated[
        bool,
        typer.Option(
            "--resend-unanswered", help="Also send documents whose receiver does not answer whether they have arrived."
        ),
    ] = False,
    print_mapping: Annotated[bool, typer.Option("--print-mapping", help="Print the default mapping.")] = False,
    node: NodeOption = None,
    config: ConfigOption = None,
    hosted: InstitutionOption = None,
    json: JsonOption = False,
    timeout: TimeoutOption = TIMEOUT_S,
) -> None:
    """Import unfinished messages of an older SEMQ; a repeat takes nothing twice. Status 1: some rows were refused."""
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
    found = report.as_json()
    lines = [
        f"{name}: {', '.join(f'{number} {result}' for result, number in table.results.items()) or 'nothing'}"
        f" of {table.rows} rows"
        for name, table in report.tables.items()
    ]
    lines += [f"  {row['table']} {row['record']}: {_cause(row)}" for row in report.listed[:LINES_MAX]]
    if (more := found["rejected"] + found["unanswered"] - LINES_MAX) > 0:
        lines.append(f"  and {more} more: --rejects FILE lists all")
    session.out.result(found, *lines)
    if report.stopped:
        session.out.notice(f"The import has stopped; repeat it. {report.stopped}")
    if report.stopped or found["unanswered"]:
        raise typer.Exit(EXIT_UNAVAILABLE)
    if found["rejected"]:
        raise typer.Exit(EXIT_REFUSED)


def _cause(row: Mapping[str, str]) -> str:
    """Return why a row was not taken; the code of a refusal once."""
    reason, detail = row["reason"], row["detail"]
    return detail if detail.startswith(reason) else f"{reason}: {detail}"
