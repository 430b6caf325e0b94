"""One scene in one event loop for all tests of this folder that use it."""

from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest
import pytest_asyncio

from semq.store.embedded.server import EmbeddedPostgres
from tests.conftest import new_database_of
from tests.console.scene import PROGRAM, Scene, scene
from tests.service.inprocess import InProcess, in_process

IN_BROWSER = ["test_pages_in_browser.py", "test_pictures.py"]
collect_ignore = [] if PROGRAM else IN_BROWSER


def pytest_report_header() -> list[str]:
    """Report tests that are left out."""
    return [] if PROGRAM else [f"console: {', '.join(IN_BROWSER)} are left out, there is no chromium"]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def nodes(
    postgres: EmbeddedPostgres, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[InProcess]:
    with ExitStack() as stack:

        def new_database() -> str:
            return stack.enter_context(new_database_of(postgres, template=migrated_template))

        async with in_process(tmp_path_factory.mktemp("console"), new_database) as made:
            yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shown(nodes: InProcess) -> AsyncIterator[Scene]:
    async with scene(nodes.folder, nodes) as made:
        yield made
