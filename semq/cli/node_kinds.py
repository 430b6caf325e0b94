"""Remedies for commands that were given to the wrong kind of node.

The tables of operations are imported only after such an error, because the import takes longer than most commands.
"""

from semq.app.errors import RefusedByNode

UNKNOWN_OPERATION, NOT_FOUND = "SEMQ-2101", "SEMQ-4404"
HUB_TYPE = "2."  # beginning of the name that a hub announces


def name_kind(error: RefusedByNode, node: str) -> None:
    """Set the remedy of an error if another kind of node has the operation, or the exchange or queue for documents.

    ``node``: the name that the node announces.
    """
    operation = str(error.facts.get("operation"))
    if error.code == NOT_FOUND and node.startswith(HUB_TYPE):
        error.with_remedy("The node is a hub: name an institution's node by --config or --node.")
    elif error.code == UNKNOWN_OPERATION and (kinds := kinds_with(operation)):
        error.with_remedy(
            f"{operation} is an operation of {' and '.join(kinds)}: name such a node by --config or --node. If this is "
            "one, compare the versions of the command line and the node (`semq version`, `semq node status`)."
        )


def kinds_with(operation: str) -> list[str]:
    """Return the kinds of nodes that have the operation; none if it is unknown, or if all have it."""
    from local_node.operations.table import OPERATIONS as LOCAL
    from local_node.virtual.operations import OPERATIONS as SERVER
    from platform_node.operations.table import OPERATIONS as HUB

    tables = {"institutions' nodes": LOCAL, "hubs": HUB, "virtual servers": SERVER}
    kinds = [kind for kind, table in tables.items() if any(row.name == operation for row in table)]
    return kinds if len(kinds) < len(tables) else []
