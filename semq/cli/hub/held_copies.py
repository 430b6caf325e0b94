"""``semq held list|count|refuse|resend``: copies that a hub stores for institutions.

Acts take copies by name or by filter, in batches; each batch is committed before the next is requested, so an
interrupted command can be repeated. ``--dry-run`` counts and changes nothing.
"""

from collections import Counter
from typing import Annotated, Any

import typer

from semq.cli.errors import NothingSelected
from semq.cli.messages.presentation import document_name, name_of, print_rows
from semq.cli.options.times import milliseconds_ago
from semq.cli.output.values import brief_time, counted
from semq.cli.session import Session, on_node
from semq.errors import BadInput
from semq.sizes import size

group = typer.Typer()
BATCH = 500  # copies in one request
FILTERS = "--target, --source, --older-than, --type, --key, --parked, --all"
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Short names, locators (LK0, LK1) or AppKeys.")
]
Target = Annotated[str | None, typer.Option(metavar="NODE", help="Stored for this institution.")]
Source = Annotated[str | None, typer.Option(metavar="NODE", help="Sent by this institution.")]
OlderThan = Annotated[str | None, typer.Option(metavar="AGE", help="Stored before this age (30m, 2h, 7d) or date.")]
Type = Annotated[str | None, typer.Option("--type", help="Data type of the AppKey.")]
Key = Annotated[str | None, typer.Option(help="Beginning of the key of the AppKey.")]
Parked = Annotated[bool, typer.Option("--parked", help="Only copies sent often and never recorded by the target.")]
All = Annotated[bool, typer.Option("--all", help="All stored copies.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count the selected copies.")]
COUNTED = (
    ("from", "<"), ("to", "<"), ("copies", ">"), ("size", ">"), ("oldest", "<"), ("only copies", ">"),
    ("markers", ">"), ("refused", ">"),
)  # fmt: skip
# The result of an act on a copy | its description
FATES = {
    "refused": "refused; their senders are informed",
    "repeated": "refused before; their senders are informed again",
    "only_copy": "unchanged: the only copy (@Ack2=0); save it (`semq msg body`), then use --only-copies",
    "marker": "unchanged: void markers end when their target is online, or is removed from the definitions",
    "resent": "sent again, now or as soon as their target is online",
    "gone": "not stored any more: their target has them",
}


@group.command("list")
@on_node
async def list_(
    session: Session, target: Target = None, source: Source = None, older_than: OlderThan = None, type: Type = None,
    key: Key = None, parked: Parked = False, limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
) -> None:  # fmt: skip
    """List stored copies, oldest first."""
    wanted = _filter(target, source, older_than, type, key, parked)
    rows = await session.ask("held.list", limit=limit, **wanted)
    if session.out.as_json:
        session.out.data(rows)
        return
    columns = (("name", "<"), ("stored", "<"), ("from", "<"), ("to", "<"), ("document", "<"), ("size", ">"))
    print_rows(session.out, (*columns, ("", "<")), rows, _row)


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
    """Refuse stored copies: each sender receives your reason, and keeps the body of its document. The receiver's ledger
    decides how the document ends (REJECTED if it had not arrived); if the receiver is no longer served, it ends
    UNKNOWN.
    """
    wanted = _filter(target, source, older_than, type, key, parked)
    more = {"why": why, "only_copies": only_copies}
    await _act(session, "held.refuse", ids, wanted, more, everything=everything, dry_run=dry_run)


@group.command()
@on_node
async def resend(
    session: Session, ids: Names = None, target: Target = None, source: Source = None, older_than: OlderThan = None,
    type: Type = None, key: Key = None, parked: Parked = False, everything: All = False,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Reason, for the ledger.")] = "",
    dry_run: DryRun = False,
) -> None:  # fmt: skip
    """Send stored copies again, also those that were sent often and never recorded; a receiver drops duplicates."""
    wanted = _filter(target, source, older_than, type, key, parked)
    await _act(session, "held.resend", ids, wanted, {"why": why}, everything=everything, dry_run=dry_run)


async def _act(
    session: Session, operation: str, ids: list[str] | None, wanted: dict[str, Any], more: dict[str, Any], *,
    everything: bool, dry_run: bool,
) -> None:  # fmt: skip
    if not (ids or wanted or everything):
        raise NothingSelected("No copies were selected.", filters=FILTERS)
    if ids and wanted:
        raise BadInput("Name copies or give a filter, not both.")
    if dry_run:
        if ids:
            session.out.result({"would": len(ids)}, f"would act on {len(ids)}")
        else:
            await _count(session, wanted)
        return
    counts: Counter[str] = Counter()
    if ids:
        for start in range(0, len(ids), BATCH):
            answer = await session.ask(operation, repeat=False, ids=ids[start : start + BATCH], **more)
            counts.update(answer["counts"])
    else:
        answer, seen = {"after": 0, "done": False}, 0
        while not answer["done"]:
            answer = await session.ask(
                operation, after=answer["after"], limit=BATCH, everything=everything or None, **wanted, **more
            )
            counts.update(answer["counts"])
            seen += sum(answer["counts"].values())
            session.out.notice(f"{seen} …")
    session.out.result(dict(counts), *(f"{number} {FATES[fate]}" for fate, number in counts.items()))


async def _count(session: Session, wanted: dict[str, Any]) -> None:
    rows = await session.ask("held.count", **wanted)
    if session.out.as_json:
        session.out.data(rows)
        return
    print_rows(session.out, COUNTED, rows, _counted)
    session.out.line(
        f"{counted(sum(row['rows'] for row in rows), 'copy', 'copies')}, {size(sum(row['bytes'] for row in rows))}"
    )


def _counted(row: dict[str, Any]) -> tuple[object, ...]:
    target = str(row["target"]).removeprefix("1.") + ("" if row["is_served"] else " (not served)")
    source = str(row["source"]).removeprefix("1.")
    rest = (row["only_copies"], row["markers"], row["refused"])
    return source, target, row["rows"], size(row["bytes"]), brief_time(row["oldest_at"]), *rest


def _row(row: dict[str, Any]) -> tuple[object, ...]:
    marks = [mark for mark in ("piece", "parked", "void") if row.get(mark)]
    marks += ["refused"] if row.get("held") and row.get("reason") else []
    ends = (str(row[end]).removeprefix("1.") for end in ("source", "target"))
    return name_of(row), brief_time(row["at"]), *ends, document_name(row), size(row["size"]), " ".join(marks)


def _filter(
    target: str | None, source: str | None, older_than: str | None, type: str | None, key: str | None, parked: bool
) -> dict[str, Any]:
    given = {
        "target": target,
        "source": source,
        "before_ms": milliseconds_ago(older_than) if older_than else None,
        "type": type,
        "key": key,
        "parked": parked or None,
    }
    return {name: value for name, value in given.items() if value is not None}
