"""The node beside which a command runs: its configuration and its URL.

Used by ``extraction``, ``acts`` and ``signatures``.
"""

import os
from pathlib import Path

from semq.config import Settings, load
from semq.config.reach import url_of
from spark_reconcile.errors import BadRunRequest

DATABASE, NODE = "SEMQ_DATABASE_URL", "SEMQ_NODE"  # variables that a running node sets for its child process


def node_settings(config: Path) -> Settings:
    """Load a node's settings like the node does. Raises ConfigUnreadable, ConfigInvalid."""
    return load(config, {name: value for name, value in os.environ.items() if name not in (DATABASE, NODE)})


def node_url(stated: str | None, config: Path | None) -> str:
    """Return ``amqp://user:password@host:port`` from an option, the environment or a node's configuration.

    Raises BadRequest if none of them has it.
    """
    url = stated or os.environ.get(NODE, "")
    if not url and config is not None:
        url = url_of(node_settings(config))
    if not url:
        raise BadRunRequest("The node is unknown: give --node amqp://user:password@host:port, or --config.")
    return url
