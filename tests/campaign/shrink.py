"""Shrinking: a failed campaign is repeated with fewer faults, documents and doors, as long as a disagreement stays.

What meets what depends on the machine, so a campaign that finds nothing is repeated once before its halves are kept.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.campaign import campaign, faults, traffic
from tests.campaign.campaign import Report
from tests.campaign.plan import CampaignPlan
from tests.campaign.world import INSTITUTIONS

NEEDED = frozenset({"traffic", "doors"})  # parts without which no document is handed over
ATTEMPTS = 2  # campaigns without a disagreement after which what they lack is needed
Say = Callable[[str], None]
Run = Callable[[CampaignPlan, Say], Awaitable[Report]]
# Field of the plan | all its values
PARTS: dict[str, frozenset[str]] = {
    "faults": frozenset(kind for _, kind, _ in faults.KINDS),
    "traffic": frozenset(kind.name for kind in traffic.KINDS),
    "doors": frozenset(door for institution in INSTITUTIONS for door in institution.doors),
}


async def run(plan: CampaignPlan, say: Say, run_one: Run = campaign.run) -> Report:
    """Run a campaign. If it fails, return the report of the smallest one that still fails, with its options."""
    report = await run_one(plan, say)
    if report.is_good:
        return report
    for part in PARTS:
        plan, report = await _shrink(part, plan, report, say, run_one)
    report.options = plan.options()
    return report


async def _shrink(part: str, plan: CampaignPlan, report: Report, say: Say, run_one: Run) -> tuple[CampaignPlan, Report]:
    """Leave out as many values of a part as possible: all, halves, quarters, down to single ones."""
    given: frozenset[str] | None = getattr(plan, part)
    kept = sorted(PARTS[part] if given is None else given)
    size = len(kept)
    while size:
        for group in _groups(kept, size):
            if part in NEEDED and len(group) == len(kept):
                continue
            less: dict[str, Any] = {part: frozenset(kept) - frozenset(group)}
            smaller = replace(plan, **less)
            found = await _failing(smaller, say, run_one)
            if found is not None:
                plan, report = smaller, found
                kept = [each for each in kept if each not in group]
        size //= 2
    return plan, report


def _groups(kept: Sequence[str], size: int) -> list[Sequence[str]]:
    return [kept[start : start + size] for start in range(0, len(kept), size)]


async def _failing(plan: CampaignPlan, say: Say, run_one: Run) -> Report | None:
    """Return the report of a campaign that fails; None if none does."""
    for _ in range(ATTEMPTS):
        say(f"shrinking: {plan.options()}")
        report = await run_one(plan, say)
        if not report.is_good and report.documents:
            return report
    return None
