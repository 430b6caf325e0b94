"""The tables of traffic and faults: every row can be drawn, the same again from a seed; RabbitMQ as the carrier."""

import sys
import tomllib
from contextlib import nullcontext
from itertools import count, islice
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.rabbitmq import server
from semq.installation.configuration import CARRIER, HUB
from tests.campaign import __main__ as command
from tests.campaign import faults, senders
from tests.campaign import world as worlds
from tests.campaign.notebook import Notebook
from tests.campaign.plan import CampaignPlan
from tests.campaign.traffic import KINDS, Traffic
from tests.campaign.world import BROKERS, INSTITUTIONS, CampaignWorld
from tests.crash.armed import failpoints
from tests.crash.armed.process import EXIT_UNAVAILABLE
from tests.crash.faults import BY_HAND, failpoints_of
from tests.crash.installation import HUB_2
from tests.interop import amqplib

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


@pytest.mark.parametrize("is_with_rabbitmq", [False, True])
def test_every_kind_of_fault_is_drawn_at_all_its_places_and_can_be_carried_out(
    tmp_path: Path, is_with_rabbitmq: bool
) -> None:
    campaign = CampaignPlan(1, 1, rabbitmq=is_with_rabbitmq)
    notebook = Notebook(tmp_path / "notebook.jsonl")
    injector = faults.CampaignFaults(CampaignWorld(tmp_path, campaign, notebook))
    notebook.close()
    plans = [faults.plan(campaign, number) for number in range(DRAWN)]
    assert plans[:10] == [faults.plan(campaign, number) for number in range(10)]
    strikes = {(fault.kind, fault.where) for plan in plans for fault in plan.faults}
    places = faults.RABBITMQ_PLACES if is_with_rabbitmq else faults.PLACES
    assert {where for _, where in strikes} >= {place for *_, group in faults.KINDS for place in places[group]}
    assert {kind for kind, _ in strikes} == {kind for _, kind, group in faults.KINDS if places[group]}
    assert {kind for kind, _ in strikes} <= injector.kinds
    at_brokers = {kind for kind, where in strikes if where in BROKERS}
    assert at_brokers == ({"kill", "kill two", "freeze"} if is_with_rabbitmq else set())


def test_every_failpoint_has_its_turn_once() -> None:
    points = failpoints_of(3, faults.HUBS, faults.ARMED)
    assert len(set(points)) == len(points)
    steps = {tuple(point.split(":")) for _, point in points}
    assert steps == {(step, phase) for step, phase in failpoints.all_failpoints() if step not in BY_HAND}
    assert {node for node, _ in points} == {*faults.HUBS, *faults.ARMED}


def test_nodes_understand_the_failpoints_they_are_given() -> None:
    drawn = [fault for number in range(300) for fault in faults.plan(CampaignPlan(1, 5), number).faults]
    texts = [fault.text for fault in drawn if fault.kind in ("failpoint", "suspend")]
    assert {text.count(":") for text in texts} == {2, 3}
    assert all(failpoints.armed({failpoints.VARIABLE: text}) is not None for text in texts)


async def test_each_instance_has_the_addresses_of_all_brokers_with_its_own_proxy_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worlds, "port_mapper", lambda root: nullcontext(1))
    notebook = Notebook(tmp_path / "notebook.jsonl")
    world = CampaignWorld(tmp_path, CampaignPlan(1, 1, rabbitmq=True), notebook)
    try:
        await world.prepare(0)
        assert CARRIER not in world.nodes
        assert tuple(world.brokers) == BROKERS
        ports = [world.brokers[name].port for name in BROKERS]
        for name, way, others in (HUB, "way-hub", ports[1:]), (HUB_2, "way-hub-2", [ports[0], ports[2]]):
            result = tomllib.loads(world.nodes[name].place.config.read_text())
            dialled = [urlsplit(url).port for url in result["cluster"]["carrier"]]
            assert dialled == [world.proxies[way].port, *others]
    finally:
        await world.remove()
        notebook.close()


def test_a_campaign_with_rabbitmq_is_refused_if_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "PROGRAM", tmp_path / "none")
    monkeypatch.setattr(sys, "argv", ["campaign", "--rabbitmq"])
    assert command.main() == EXIT_UNAVAILABLE
    assert "is not installed" in capsys.readouterr().err


@pytest.mark.parametrize("doors", ["amqplib", "sql"])
def test_packages_of_a_door_are_installed_before_the_campaign_has_a_network_of_its_own(
    doors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    monkeypatch.setattr(sys, "argv", ["campaign", "--doors", doors])
    monkeypatch.setattr(amqplib, "is_available", lambda: True)
    monkeypatch.setattr(amqplib, "installed", lambda: called.append("installed"))
    monkeypatch.setattr(command, "use_own_network", sys.exit)
    with pytest.raises(SystemExit):
        command.main()
    assert called == ["installed"] * (doors == "amqplib")


@pytest.mark.parametrize("option", ["--faults", "--traffic", "--doors"])
def test_an_unknown_kind_is_refused(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a campaign without documents or faults would pass."""
    monkeypatch.setattr(sys, "argv", ["campaign", option, "sql,freze,plain"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert "freze" in capsys.readouterr().err
