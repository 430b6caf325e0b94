"""The node beside which a command runs: its configuration and its URL."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from semq.app import Client
from semq.app.client import is_node_of
from semq.config import Settings, load
from semq.config.reach import admin_address_of
from spark_reconcile.errors import BadRunRequest

# Environment variables that a running node sets for its child process.
DATABASE_VARIABLE, NODE_VARIABLE = "SEMQ_DATABASE_URL", "SEMQ_NODE"
PATIENCE_S = 60.0  # longest wait for an unavailable node


def node_settings(config: Path, institution: str | None = None) -> Settings:
    """Load a node's settings, ignoring the two variables above. Raises ConfigUnreadable, ConfigInvalid.

    ``institution``: the one to load, if the file has several.
    """
    variables = {name: text for name, text in os.environ.items() if name not in (DATABASE_VARIABLE, NODE_VARIABLE)}
    return load(config, variables, institution)


class AskedNode(NamedTuple):
    """The node to which a command connects."""

    url: str
    name: str = ""  #: name that it must announce, for instance "1.10008"; empty: any

    @asynccontextmanager
    async def client(self, patience_s: float = PATIENCE_S) -> AsyncIterator[Client]:
        """Yield a connected client. Raises BadRunRequest if another node has answered."""
        async with Client(self.url, patience_s=patience_s) as client:
            if not is_node_of(client, self.name):
                raise BadRunRequest(
                    "Another node than that of the configuration answers at its address; no request was sent.",
                    address=client.address,
                    answers=client.node,
                    configured=self.name,
                ).with_remedy("Use the file of the node that answers, or correct node.id or amqp.port in this file.")
            yield client


def asked_node(option: str | None, config: Path | None, institution: str | None = None) -> AskedNode:
    """Return the node with the URL of an option, else of NODE_VARIABLE, else the node of a configuration.

    Raises BadRunRequest if none of them is given.
    """
    if url := option or os.environ.get(NODE_VARIABLE, ""):
        return AskedNode(url)
    if config is None:
        raise BadRunRequest("The node is unknown: give --node amqp://user:password@host:port, or --config.")
    address = admin_address_of(node_settings(config, institution))
    return AskedNode(address.url(), address.name)
