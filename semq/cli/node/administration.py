"""``semq node status|health|metrics|incarnation|missing|drain|reload|list``: state and administration of a node.

``process`` adds ``semq node init`` and ``run`` to the same group, ``enrolment`` adds ``semq node enroll``.
"""

from typing import Annotated, Any

import typer

from semq.cli.messages.presentation import name_of
from semq.cli.options.times import milliseconds_ago
from semq.cli.output.values import brief_time, counted, node_name
from semq.cli.session import Session, on_node

group = typer.Typer()


@group.command()
@on_node
async def status(
    session: Session,
    counters: Annotated[
        bool, typer.Option("--counters", help="Show only the counters, and the figures of AMQP and the store.")
    ] = False,
) -> None:
    """Show a node's identity, state, links, traffic, certificates and partners."""
    from semq.answers.status import NodeStatus
    from semq.app.answers import read_answer
    from semq.cli.node.status import print_counters, print_status

    answer = await session.ask("node.status")
    if session.out.as_json:
        session.out.data(answer)
    elif counters:
        print_counters(session.out, read_answer(NodeStatus, answer))
    else:
        print_status(session.out, read_answer(NodeStatus, answer))


@group.command()
@on_node
async def health(session: Session) -> None:
    """Show whether the node works, and what needs attention soon; exit status 1 if something fails."""
    from semq.answers.status import NodeHealth
    from semq.app.answers import read_answer

    given = await session.ask("node.health")
    answer = read_answer(NodeHealth, given)
    cells = ((check.name, check.verdict, check.detail) for check in answer.checks)
    session.out.rows(given, "check, verdict, detail", cells)
    if answer.verdict == "failing":
        raise typer.Exit(1)


@group.command()
@on_node
async def metrics(
    session: Session,
    detailed: Annotated[bool, typer.Option("--detailed", help="Print the figures of each partner, too.")] = False,
    format: Annotated[str, typer.Option(help="text (Prometheus 0.0.4) or openmetrics (1.0.0).")] = "text",
) -> None:
    """Print the node's figures in the format of Prometheus, for a textfile collector."""
    answer = await session.ask("node.metrics", detailed=detailed, format=format)
    session.out.data(answer) if session.out.as_json else session.out.raw(answer["text"].encode())


@group.command()
@on_node
async def incarnation(session: Session) -> None:
    """Show the identity of the store: uuid, number of openings (boot), incarnation (a new one for each opening)."""
    from semq.answers.status import NodeStatus

    answer = await session.read(NodeStatus, "node.status")
    names = ("node", "store_uuid", "boot", "incarnation", "started_at")
    session.out.facts({name: getattr(answer, name) for name in names})


@group.command()
@on_node
async def missing(
    session: Session,
    since: Annotated[
        str | None, typer.Option(metavar="AGE", help="Time of the backup, to ask anew: an age (30m, 2h, 7d) or a date.")
    ] = None,
) -> None:
    """List the documents that a node lacks because its database was restored, and whom to ask for each. Exit status 1:
    some partners have not answered yet.
    """
    answer = await session.ask("node.missing", since=milliseconds_ago(since) if since else None)
    if session.out.as_json:
        session.out.data(answer)
    elif answer["since"] is None:
        session.out.line("no commits are known to be missing; --since asks about documents since a time")
    else:
        rows = [(name_of(row), brief_time(row["at"]), *_about_missing(row)) for row in answer["rows"]]
        session.out.rows(answer, "name, at, lost, document, to do", rows)
        session.out.line(f"{counted(answer['count'], 'document')} missing since {answer['since']}, {len(rows)} listed")
        for party in answer["unanswered"]:
            session.out.line(f"not answered yet: {node_name(party['node'])}: {party['why']}")
    if answer["unanswered"]:
        raise typer.Exit(1)


def _about_missing(row: dict[str, Any]) -> tuple[str, str, str]:
    partner = node_name(row["partner"])
    if row["lost_as"] == "sender":
        has_it = f"the hub has taken it for {partner}" if row["side"] == "hub" else f"{partner} has received it"
        return "as sender", row["app_key"], f"none: {has_it}"
    return "as receiver", row["app_key"], f"ask {partner} to submit it again"


@group.command()
@on_node
async def drain(session: Session) -> None:
    """Stop accepting documents, and wait until none is under way, so that the node can be stopped. Exit status 1: some
    are under way after --timeout seconds.
    """
    answer = await session.ask_once("node.drain", timeout_s=session.timeout_s)
    session.out.result(
        answer,
        "drained: no document is under way" if answer.get("drained") else "not drained yet: documents are under way",
    )
    if not answer.get("drained"):
        raise typer.Exit(1)


@group.command()
@on_node
async def reload(
    session: Session,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
) -> None:
    """Read the configuration file again. Users, new virtual hosts, institutions, partners, alerts and some limits
    change at once; other settings change at the next start.
    """
    answer = await session.ask_once("node.reload", dry_run=dry_run)
    effect = "would change" if dry_run else "changed"
    rows = [(key, effect) for key in answer["changed"]] + [(key, "at the next start") for key in answer["restart"]]
    rows += [(f"user {name}", "disconnected") for name in answer["ended"]]
    if rows:
        session.out.rows(answer, "key, effect", rows)
    else:
        session.out.result(answer, "nothing has changed")


@group.command("list")
@on_node
async def list_(session: Session) -> None:
    """List the institutions of a hub: whether each is online, and the number of copies stored for it."""
    rows = await session.ask("nodes.list")
    cells = ((node_name(row["node"]), row["online"], row["held"]) for row in rows)
    session.out.rows(rows, "institution, online, >stored copies", cells)
