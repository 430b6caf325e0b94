"""The node beside which a command runs: its configuration and its URL."""

import os
from pathlib import Path

from semq.config import Settings, load
from semq.config.reach import url_of
from spark_reconcile.errors import BadRunRequest

# Environment variables that a running node sets for its child process.
DATABASE_VARIABLE, NODE_VARIABLE = "SEMQ_DATABASE_URL", "SEMQ_NODE"


def node_settings(config: Path, institution: str | None = None) -> Settings:
    """Load a node's settings, ignoring the two variables above. Raises ConfigUnreadable, ConfigInvalid.

    ``institution``: the one to load, if the file has several.
    """
    variables = {name: text for name, text in os.environ.items() if name not in (DATABASE_VARIABLE, NODE_VARIABLE)}
    return load(config, variables, institution)


def node_url(option: str | None, config: Path | None, institution: str | None = None) -> str:
    """Return ``amqp://user:password@host:port`` from an option, else NODE_VARIABLE, else a node's configuration.

    Raises BadRunRequest if none of them has it.
    """
    url = option or os.environ.get(NODE_VARIABLE, "")
    if not url and config is not None:
        url = url_of(node_settings(config, institution))
    if not url:
        raise BadRunRequest("The node is unknown: give --node amqp://user:password@host:port, or --config.")
    return url
