"""``semq broker`` and ``semq worker list`` at real nodes."""

import pytest

from tests.app.network import Network
from tests.cli.command import semq


@pytest.mark.parametrize("list_name", ["queues", "consumers", "connections", "channels", "exchanges", "bindings"])
@pytest.mark.parametrize("node_name", ["hub", "56001"])
def test_every_list_is_printed_as_a_table_and_as_json(network: Network, list_name: str, node_name: str) -> None:
    node = ["--node", network.nodes[node_name].url]
    result = semq("broker", list_name, *node)
    assert result.status == 0
    rows = semq("broker", list_name, "--json", *node).data
    assert isinstance(rows, list)
    few = semq("broker", list_name, "--json", "--limit", "1", *node)
    assert few.status == 0
    if len(rows) > 1:
        assert few.err == "there are more than 1 rows: --limit N\n"


def test_known_objects_are_found(network: Network) -> None:
    node = ["--node", network.hub.url, "--json"]
    links = semq("broker", "connections", "--vhost", "umx", *node).data
    assert {row["user"] for row in links} == {"1.10008", "1.56001"}
    queues = {row["queue"] for row in semq("broker", "consumers", "--vhost", "umx", *node).data}
    assert {"node.1.10008", "node.1.10008.control", "node.1.10008.asked"} <= queues
    assert semq("worker", "list", *node).data == []
