"""The kinds of nodes that have an operation."""

from semq.app.errors import RefusedByNode
from semq.cli.node_kinds import kinds_with, name_kind
from tests.app.network import Network
from tests.cli.command import semq


def test_an_operation_names_the_kinds_of_nodes_that_have_it() -> None:
    assert kinds_with("held.list") == ["hubs"]
    assert kinds_with("failed.show") == ["institutions' nodes"]
    assert kinds_with("msg.list") == ["institutions' nodes", "hubs"]
    assert kinds_with("server.list") == ["virtual servers"]
    assert kinds_with("msg.lost") == []


def test_an_operation_of_another_kind_of_node_is_refused_with_the_kind_that_has_it(network: Network) -> None:
    at_hub, at_node = ("--node", network.hub.url), ("--node", network.sender.url)
    for words in (["node", "list"], ["held", "list"], ["call", "nodes.list"], ["hub", "instances"]):
        semq(*words, *at_node).fails(1, "SEMQ-2101", "is an operation of hubs: name such a node by --config or --node.")
    for words in (["failed", "show", "x"], ["msg", "cancel", "x"]):
        semq(*words, *at_hub).fails(1, "SEMQ-2101", "is an operation of institutions' nodes: name such a node by ")
    for words in (["msg", "send", "--to", "56001", "--file", "README.md"], ["msg", "receive"]):
        semq(*words, *at_hub).fails(
            1, "SEMQ-4404", "The node is a hub: name an institution's node by --config or --node."
        )


def test_an_operation_that_no_node_has_is_refused_as_before(network: Network) -> None:
    semq("call", "msg.lost", "--node", network.sender.url).fails(1, "SEMQ-2101", "lists the operations of a node")


def test_other_errors_are_unchanged() -> None:
    for code, node in (("SEMQ-2102", "2.hub"), ("SEMQ-4404", "1.10008")):
        error = RefusedByNode({"code": code, "remedy": "Correct it.", "facts": {"operation": "held.list"}})
        name_kind(error, node)
        assert error.remedy == "Correct it."
