"""``semq held list|count|refuse|resend``: copies that a hub stores for institutions.

``refuse`` and ``resend`` act in batches. The hub commits each batch before the next one is requested, so an interrupted
command can be repeated.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated

import typer

from semq.cli.errors import NothingSelected
from semq.cli.messages.presentation import document_name, marks_of, name_of, print_rows
from semq.cli.options.selection import refuse_names_with_selection
from semq.cli.options.times import milliseconds_ago
from semq.cli.output.values import brief_time, counted
from semq.cli.session import RowsOption, Session, on_node
from semq.sizes import size

group = typer.Typer()
BATCH = 500  # copies in one request
FILTERS = "--target, --source, --older-than, --type, --key, --parked, --all"
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Short names, locators (LK0, LK1) or AppKeys.")
]
Target = Annotated[str | None, typer.Option(metavar="NODE", help="Only copies for this institution.")]
Source = Annotated[str | None, typer.Option(metavar="NODE", help="Only copies sent by this institution.")]
OlderThan = Annotated[
    str | None, typer.Option(metavar="AGE", help="Only copies stored before this time: an age (30m, 2h, 7d) or a date.")
]
Type = Annotated[str | None, typer.Option("--type", help="Only this data type of the AppKey.")]
Key = Annotated[str | None, typer.Option(help="Only copies whose key begins with this text.")]
Parked = Annotated[
    bool, typer.Option("--parked", help="Only parked copies: sent often, but never recorded by the target.")
]
All = Annotated[bool, typer.Option("--all", help="All stored copies.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count the selected copies.")]
COUNT_COLUMNS = "from, to, >copies, >size, oldest, >only copies, >markers, >refused"
# Result of an act on a copy | its description
RESULTS = {
    "refused": "refused; their senders are informed",
    "repeated": "refused before; their senders are informed again",
    "only_copy": "unchanged: the only copy (@Ack2=0); save it (`semq msg body`), then use --only-copies",
    "marker": "unchanged: void markers end when their target is online, and can be refused if it is no longer served or"
    " they are parked",
    "resent": "sent again, now or as soon as their target is online",
    "gone": "no longer stored: their target has them, or their refusal is noted",
}
RESULTS_OF_RESEND = {**RESULTS, "refused": "not sent again: refused before; their senders are informed"}


@group.command("list")
@on_node
async def list_(
    session: Session, target: Target = None, source: Source = None, older_than: OlderThan = None, type: Type = None,
    key: Key = None, parked: Parked = False, limit: RowsOption = 100,
) -> None:  # fmt: skip
    """List stored copies, oldest first."""
    filters = _filter(target, source, older_than, type, key, parked)
    rows = await session.ask("held.list", limit=limit, **filters)
    print_rows(session.out, "name, stored, from, to, document, >size, ", rows, _cells)


@group.command()
@on_node
async def count(
    session: Session, target: Target = None, source: Source = None, older_than: OlderThan = None, type: Type = None,
    key: Key = None, parked: Parked = False,
) -> None:  # fmt: skip
    """Count stored copies by sender and target."""
    await _count(session, _filter(target, source, older_than, type, key, parked))


@group.command()
@on_node
async def refuse(
    session: Session, ids: Names = None, target: Target = None, source: Source = None, older_than: OlderThan = None,
    type: Type = None, key: Key = None, parked: Parked = False, everything: All = False,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Reason; the senders receive it.")] = "",
    only_copies: Annotated[
        bool, typer.Option("--only-copies", help="Also copies whose sender keeps no payload (@Ack2=0).")
    ] = False,
    dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Refuse stored copies. Each sender receives the reason.

    A document of class 3 then ends REJECTED, or DELIVERED if the receiver already has it. A document of class 2, or for
    an institution that the hub no longer serves, ends UNKNOWN.
    """
    filters = _filter(target, source, older_than, type, key, parked)
    arguments = {"why": why, "only_copies": only_copies}
    await _act(session, "held.refuse", ids, filters, arguments, everything=everything, dry_run=dry_run)


@group.command()
@on_node
async def resend(
    session: Session, ids: Names = None, target: Target = None, source: Source = None, older_than: OlderThan = None,
    type: Type = None, key: Key = None, parked: Parked = False, everything: All = False,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Reason, for the ledger.")] = "",
    dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Send stored copies again, also parked ones; a receiver drops duplicates. Exit status 1: a named copy was refused
    before.
    """
    filters = _filter(target, source, older_than, type, key, parked)
    await _act(session, "held.resend", ids, filters, {"why": why}, everything=everything, dry_run=dry_run)


async def _act(
    session: Session, operation: str, ids: list[str] | None, filters: dict[str, object], arguments: dict[str, object],
    *, everything: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Act on the named copies, the selected copies, or all copies; print the number of copies with each result."""
    refuse_names_with_selection(ids, is_selected=everything or bool(filters))
    if not (ids or filters or everything):
        raise NothingSelected("No copies were selected.").with_remedy(f"Name copies, or give one of {FILTERS}.")
    if dry_run:
        if ids:
            session.out.result({"would": len(ids)}, f"would act on {len(ids)}")
        else:
            await _count(session, filters)
        return
    counts: Counter[str] = Counter()
    if ids:
        for start in range(0, len(ids), BATCH):
            answer = await session.ask_once(operation, ids=ids[start : start + BATCH], **arguments)
            counts.update(answer["counts"])
    else:
        answer, total = {"after": 0, "done": False}, 0
        while not answer["done"]:
            answer = await session.ask(
                operation, after=answer["after"], limit=BATCH, everything=everything or None, **filters, **arguments
            )
            counts.update(answer["counts"])
            total += sum(answer["counts"].values())
            session.out.notice(f"{total} …")
    is_resend = operation == "held.resend"
    results = RESULTS_OF_RESEND if is_resend else RESULTS
    session.out.result(dict(counts), *(f"{number} {results[name]}" for name, number in counts.items()))
    if is_resend and ids and counts["refused"]:
        raise typer.Exit(1)


async def _count(session: Session, filters: dict[str, object]) -> None:
    rows = await session.ask("held.count", **filters)
    print_rows(session.out, COUNT_COLUMNS, rows, _count_cells)
    if not session.out.as_json:
        copies, bytes_ = sum(row["rows"] for row in rows), sum(row["bytes"] for row in rows)
        session.out.line(f"{counted(copies, 'copy', 'copies')}, {size(bytes_)}")


def _count_cells(row: Mapping[str, object]) -> tuple[object, ...]:
    target = str(row["target"]).removeprefix("1.") + ("" if row["is_served"] else " (not served)")
    source = str(row["source"]).removeprefix("1.")
    numbers = (row["only_copies"], row["markers"], row["refused"])
    return source, target, row["rows"], size(row["bytes"]), brief_time(row["oldest_at"]), *numbers


def _cells(row: Mapping[str, object]) -> tuple[object, ...]:
    marks = marks_of(row, ("piece", "parked", "void"))
    marks += ["refused"] if row.get("held") and row.get("reason") else []
    ends = (str(row[end]).removeprefix("1.") for end in ("source", "target"))
    return name_of(row), brief_time(row["at"]), *ends, document_name(row), size(row["size"]), " ".join(marks)


def _filter(
    target: str | None, source: str | None, older_than: str | None, type: str | None, key: str | None, parked: bool
) -> dict[str, object]:
    given = {
        "target": target,
        "source": source,
        "before_ms": milliseconds_ago(older_than) if older_than else None,
        "type": type,
        "key": key,
        "parked": parked or None,
    }
    return {name: value for name, value in given.items() if value is not None}
