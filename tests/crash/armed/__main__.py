"""``python -m tests.crash.armed local|platform --config FILE``: a node with the failpoint of CRASH_FAILPOINT."""

import os
import sys
from typing import Any

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.service.node import Node
from semq.service.process import main
from semq.store.postgres.store import PostgresStore
from semq.store.unit import Recovered
from tests.crash.armed.failpoints import Failpoint, armed

KINDS: dict[str, type[Node[Any]]] = {"local": LocalNode, "platform": HubNode}


def arm(kind: type[Node[Any]], point: Failpoint) -> None:
    """Let a failpoint watch the stores and engines of all nodes of a kind."""
    prepare, build_engine = kind.prepare, kind.build_engine
    watched: list[PostgresStore] = []
    point.watch_statements()

    async def watched_prepare(node: Node[Any]) -> None:
        if node.store not in watched:  # a standby prepares twice
            watched.append(node.store)
            point.watch_store(node.store)
        await prepare(node)

    def watched_engine(node: Node[Any], recovered: Recovered) -> Any:
        engine = build_engine(node, recovered)
        point.watch_engine(engine)
        return engine

    # mypy: the parameter is named node, not self
    kind.prepare, kind.build_engine = watched_prepare, watched_engine  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    name = sys.argv.pop(1)
    failpoint = armed(os.environ)
    if failpoint is not None:
        arm(KINDS[name], failpoint)
    sys.exit(main(name, KINDS[name]))
