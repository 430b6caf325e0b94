"""Next steps: one for every exception, each with a valid command of semq."""

import shlex

import pytest
from typer.main import get_command

from semq.cli.main import make
from spark_reconcile.commands import parser
from spark_reconcile.judgement.verdicts import RULES, VERDICT
from spark_reconcile.report.steps import NextStep, next_steps, owners

EXCEPTIONS = sorted({(rule.finding, rule.verdict) for rule in RULES if VERDICT[rule.verdict].kind == "exception"})


def row(finding: str, verdict: str, lk0: str = "1.10.1.1.3f2a.7") -> dict[str, str]:
    return {"lk0": lk0, "finding": finding, "verdict": verdict, "sender": "1.10", "receiver": "1.20"}


@pytest.mark.parametrize(("finding", "verdict"), EXCEPTIONS)
def test_every_exception_has_a_valid_next_command(finding: str, verdict: str) -> None:
    steps = next_steps(row(finding, verdict), "2026-11-20", "2.hub", "1.20")
    assert steps
    for step in steps:
        program, group, *arguments = shlex.split(step.command)
        assert program == "semq"
        assert step.node == {"sender": "1.10", "hub": "2.hub", "receiver": "1.20", "writer": "1.20"}[step.side]
        if group == "reconcile":
            parser().parse_args(arguments)
        else:
            _parse(group, arguments)
    assert owners(row(finding, verdict), "2.hub")


def _parse(group: str, arguments: list[str]) -> None:
    """Parse arguments with the command line of semq. Raises UsageError."""
    command = get_command(make())
    for name in (group, arguments[0]):
        command = command.commands[name]  # type: ignore[attr-defined]
    with command.make_context("semq", arguments[1:]):
        pass


def test_foreign_text_is_quoted_in_a_command() -> None:
    (step,) = next_steps(row("never_arrived", "MISSING_AT_HUB", "1.a; rm -rf ~"), "2026-11-20", "")
    assert step == NextStep("sender", "1.10", "semq msg inquire '1.a; rm -rf ~' --config FILE")


def test_owners_have_the_addresses_of_their_nodes() -> None:
    assert owners(row("other_bytes", "DIGEST_MISMATCH"), "2.hub") == [("sender", "1.10"), ("receiver", "1.20")]
    assert owners(row("sent_to_no_avail", "NOT_DELIVERED"), "2.hub") == [("hub", "2.hub")]
    assert owners(row("two_targets", "STATE_CONTRADICTION"), "2.hub") == [("analyst", "")]
