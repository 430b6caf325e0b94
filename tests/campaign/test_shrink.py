"""Shrinking keeps what a disagreement needs, and nothing else."""

from tests.campaign import shrink
from tests.campaign.campaign import Report
from tests.campaign.plan import CampaignPlan

NEEDED = {"faults": {"kill", "revoke"}, "traffic": {"group"}, "doors": {"sql"}}


async def _run_one(plan: CampaignPlan, say: shrink.Say) -> Report:
    """Fail if the plan has all that is needed."""
    given = {part: getattr(plan, part) for part in shrink.PARTS}
    assert given["traffic"] != frozenset() != given["doors"], "no document is handed over"
    has_all = all(kinds is None or kinds >= NEEDED[part] for part, kinds in given.items())
    return Report(plan.seed, plan.minutes, documents=1, disagreements=int(has_all))


async def test_shrinking_keeps_what_a_disagreement_needs() -> None:
    report = await shrink.run(CampaignPlan(1, 7), lambda line: None, _run_one)
    assert report.options == '--minutes 1 --seed 7 --rate 6 --faults "kill,revoke" --traffic "group" --doors "sql"'


async def test_a_campaign_without_a_disagreement_is_not_repeated() -> None:
    plan = CampaignPlan(1, 7, faults=frozenset())
    report = await shrink.run(plan, lambda line: None, _run_one)
    assert report.is_good
    assert not report.options
