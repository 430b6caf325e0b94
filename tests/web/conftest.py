"""Fixtures: a hub, and the institution 10008 linked to it, started once for the tests of a file.

Each test serves them with a web process of its own, and finds no users, sessions, tokens or lines of the audit log.
Documents of other tests remain; a test that receives has an inbox of its own (``Site.inbox``).
"""

import psycopg
import pytest

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.service.credentials import passwords
from tests.local_node.pieces.test_transfer import local
from tests.service.inprocess import InProcess, linked

TABLES = ("web_account", "web_session", "web_link", "web_token", "web_audit")


@pytest.fixture(autouse=True)
def cheap_hashes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords of users with the least work, except in the test of the hashes."""
    if request.path.name != "test_passwords.py":
        monkeypatch.setattr(passwords, "_SCRYPT_N", 2)


@pytest.fixture(scope="module")
async def running_hub(shared_inprocess: InProcess) -> HubNode:
    return await shared_inprocess.hub()


@pytest.fixture(scope="module")
async def running_node(shared_inprocess: InProcess, running_hub: HubNode) -> LocalNode:
    node = await shared_inprocess.local("10008", running_hub.port)
    await linked(node)
    return node


@pytest.fixture(scope="module")
async def pieces_node(shared_inprocess: InProcess, running_hub: HubNode) -> LocalNode:
    """Start the institution as a node that sends large documents to itself, in pieces."""
    node = await local(shared_inprocess, "10008", running_hub.port)
    await linked(node)
    return node


@pytest.fixture
def hub(running_hub: HubNode) -> HubNode:
    delete_rows(running_hub)
    return running_hub


@pytest.fixture
def node(running_node: LocalNode) -> LocalNode:
    delete_rows(running_node)
    return running_node


def delete_rows(node: LocalNode | HubNode) -> None:
    assert node.store.url is not None
    with psycopg.connect(node.store.url) as connection:
        connection.execute("SET session_replication_role = replica")  # a trigger keeps the audit log
        for table in TABLES:
            connection.execute(f"DELETE FROM {table}")
