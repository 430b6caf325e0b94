"""Commands that show the state of a node, and the command that reloads its configuration."""

import re
import signal

from tests.app.network import Network
from tests.cli.command import semq


def test_the_status_of_a_node_is_printed_in_words_and_as_json(network: Network) -> None:
    result = semq("node", "status", "--node", network.sender.url, "--json").data
    assert (result["kind"], result["node"]) == ("local", "1.10008")
    words = semq("node", "status", "--node", network.sender.url)
    assert words.status == 0
    assert "10008, an institution's node" in words.out
    assert re.search(r"running since +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d \(", words.out)
    assert re.search(r"link to hub +up, 2\.hub", words.out)
    assert "store.units" not in words.out
    counters = semq("node", "status", "--counters", "--node", network.sender.url).out
    assert "store.units" in counters
    assert re.search(r"^accepted +\d+ +accepted from applications$", counters, re.MULTILINE)


def test_the_incarnation_is_shown_with_store_and_start(network: Network) -> None:
    result = semq("node", "incarnation", "--config", str(network.hub.place.config), "--json").data
    assert result["node"] == "2.hub"
    assert result["boot"] >= 1
    assert all(result[name] for name in ("store_uuid", "incarnation", "started_at"))


def test_the_hub_lists_its_institutions(network: Network) -> None:
    rows = {row["node"]: row for row in semq("node", "list", "--node", network.hub.url, "--json").data}
    assert rows.keys() == {"1.10008", "1.56001", "1.77001", "1.88001"}
    assert not rows["1.77001"]["online"]
    assert "77001" in semq("node", "list", "--node", network.hub.url).out


def test_an_operation_of_the_other_kind_is_refused(network: Network) -> None:
    semq("node", "list", "--node", network.sender.url).fails(1, "SEMQ-2101")


def test_the_configuration_is_read_again_on_request_and_on_a_signal(network: Network) -> None:
    url, config = network.sender.url, network.sender.place.config
    assert semq("node", "reload", "--node", url, "--json").data == {"changed": [], "restart": [], "ended": []}
    before = config.read_text()
    config.write_text(before + "\n[extract]\npiece_bytes = 4096\n[tls]\nwarn_days = 3\n")
    result = semq("node", "reload", "--dry-run", "--node", url)
    assert "at the next start" in result.out
    assert "tls.warn_days" in result.out
    config.write_text("[node")
    semq("node", "reload", "--node", url).fails(1, "SEMQ-2010")
    assert network.sender.process is not None
    network.sender.process.send_signal(signal.SIGHUP)
    with network.sender.place.log.open() as log:
        while "not_reloaded" not in log.read():
            assert network.sender.process.poll() is None
    config.write_text(before)
    assert "nothing has changed" in semq("node", "reload", "--node", url).out
