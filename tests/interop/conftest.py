"""Clients of other projects on one node without a hub.

The header of pytest's output names the tests that are left out because a program is missing.
"""

import shutil
from collections.abc import Iterator

import pytest

from bench.lone_node import node
from tests.interop.examples import LANGUAGES

# file | required programs
NEEDS = {"test_amqplib.py": ("node", "npm"), "test_amqp_tools.py": ("amqp-publish", "amqp-get", "amqp-consume")}
MISSING = {
    file: missing for file, needed in NEEDS.items() if (missing := [name for name in needed if not shutil.which(name)])
}
collect_ignore = list(MISSING)


def pytest_report_header() -> list[str]:
    """Report the files that are not collected, and the programs in other languages that are not run."""
    left_out = [f"interop: {file} is left out, not installed: {', '.join(names)}" for file, names in MISSING.items()]
    languages = [name for name, language in LANGUAGES.items() if not language.is_present]
    return [*left_out, f"interop: programs left out, not installed: {', '.join(languages) or 'none'}"]


@pytest.fixture(scope="session")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Return the port of the node; its user is guest."""
    with node(tmp_path_factory.mktemp("interop")) as port:
        yield port


@pytest.fixture(scope="session")
def url(port: int) -> str:
    return f"amqp://guest:guest@127.0.0.1:{port}/"
