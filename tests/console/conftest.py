"""Fixtures: one scene (``tests.console.scene``), in one event loop for all tests of this folder."""

from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest
import pytest_asyncio

from semq.store.embedded.cluster import DATABASE
from semq.store.embedded.server import EmbeddedPostgres
from tests.conftest import new_database_of
from tests.console import browsers
from tests.console.scene import Scene, running_scene
from tests.service.inprocess import InProcess, in_process

BROWSER_TESTS = ["test_pages_in_browser.py", "test_pictures.py"]
collect_ignore = [] if browsers.PROGRAM else BROWSER_TESTS


def pytest_report_header() -> list[str]:
    return (
        [] if browsers.PROGRAM else [f"console: {', '.join(BROWSER_TESTS)} are left out, because there is no chromium"]
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def nodes(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[InProcess]:
    with ExitStack() as stack:

        def new_database() -> str:
            return stack.enter_context(new_database_of(postgres, template=DATABASE))

        async with in_process(tmp_path_factory.mktemp("console"), new_database) as nodes:
            yield nodes


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def scene(nodes: InProcess) -> AsyncIterator[Scene]:
    async with running_scene(nodes.folder, nodes) as running:
        yield running
