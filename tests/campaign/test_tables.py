"""The tables of traffic and faults: every row can be drawn, and a seed draws the same again."""

from itertools import count, islice
from pathlib import Path

from tests.campaign import faults, senders
from tests.campaign.notebook import Notebook
from tests.campaign.plan import CampaignPlan
from tests.campaign.traffic import KINDS, Traffic
from tests.campaign.world import INSTITUTIONS, CampaignWorld

DRAWN = 3000
CAN = {
    "aio-pika": senders.AioPikaSender.can, "pika": senders.PikaSender.can, "sql": senders.SqlSender.can,
    "own aio-pika": senders.AioPikaSender.can, "amqplib": senders.AmqplibSender.can,
    "celery": senders.CelerySender.can,
    "http": senders.HttpSender.can, "folder": senders.FolderSender.can, "app": senders.AppSender.can,
}  # fmt: skip


def test_every_kind_of_document_is_drawn_at_some_door_and_again_from_the_same_seed(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path / "notebook.jsonl")
    world = CampaignWorld(tmp_path, CampaignPlan(1, 1), notebook)
    drawn = set()
    for institution in INSTITUTIONS:
        for door in institution.doors:
            first, second = (world.traffic(institution, door, 0, CAN[door]) for _ in range(2))
            documents = _draw(first)
            assert documents == _draw(second)
            drawn |= {kind for kind, *_ in documents}
    notebook.close()
    assert drawn == {kind.name for kind in KINDS}


def _draw(traffic: Traffic) -> list[tuple[str, str, str]]:
    documents = [traffic.draw(number, 0) for number in islice(count(1), DRAWN)]
    return [(document.kind, document.target, document.order_key) for document in documents]


def test_every_kind_of_fault_is_drawn_and_can_be_carried_out(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path / "notebook.jsonl")
    injector = faults.CampaignFaults(CampaignWorld(tmp_path, CampaignPlan(1, 1), notebook))
    plans = [faults.plan(1, number) for number in range(DRAWN)]
    assert plans[:10] == [faults.plan(1, number) for number in range(10)]
    kinds = {fault.kind for plan in plans for fault in plan.faults}
    assert kinds == {kind for _, kind, _ in faults.KINDS}
    assert kinds <= injector.kinds
    notebook.close()
