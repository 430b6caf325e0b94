"""The demo with several instances of the hub."""

import json
import subprocess
from pathlib import Path

from semq.config import load
from semq.demo.configuration import write_configuration
from semq.installation.configuration import HUB, STANDBY
from tests.demo.test_scenario import DEMO


def test_the_second_instance_and_its_standby_share_a_store(tmp_path: Path, database: str) -> None:
    places = write_configuration(tmp_path, shared_database=database)
    second, standby = (load(places[name].config, {}) for name in (f"{HUB}-2", STANDBY))
    assert second.database.url is not None
    assert second.database.url.get_secret_value() == database
    assert second.database.url == standby.database.url
    assert (second.node.semq_id, second.node.semq_db_id) == (standby.node.semq_id, standby.node.semq_db_id) == (2, 2)
    assert second.data_dir != standby.data_dir
    hub = load(places["56001"].config, {}).hub
    assert hub is not None
    ports = [places[name].port for name in (f"{HUB}-2", HUB, STANDBY)]
    assert [hub.url, *hub.more_urls] == [f"amqp://127.0.0.1:{port}" for port in ports]


def test_the_demo_goes_on_when_an_instance_of_the_hub_is_killed(reconciles: bool) -> None:
    command = [*DEMO, "--json", "--cluster", "--count", "10", *([] if reconciles else ["--no-reconcile"])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "hub-2 is killed (SIGKILL) meanwhile" in done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["delivered"], result["received"], result["lost"], result["duplicated"]) == (30, 30, 0, 0)
    assert (result["instances"], result["stores"], result["restarts"]) == (3, 2, 1)
    assert result["takeover_s"] > 0
    assert {"hub.tb_0031", "standby.tb_0031"} < set(result["left_in_each_queue"])
    if not reconciles:
        return
    reconciled = result["reconcile"]
    assert (reconciled["messages"], reconciled["strange"]) == (30, 0), reconciled
    sources = json.loads((Path(reconciled["report"]).parent / "summary.json").read_text())["sources"]
    assert {"2.hub.1.1", "2.hub.2.2"} < {one["source"] for one in sources}
