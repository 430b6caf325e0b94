"""Other people's clients against one node that runs by itself.

What a machine does not have cannot be tried on it: such files are left out when tests are collected, and the header of
the run says which and why.
"""

import shutil
from collections.abc import Iterator

import pytest

from bench.lone_node import node

# file | programs that it needs
NEEDS = {"test_amqplib.py": ("node", "npm"), "test_amqp_tools.py": ("amqp-publish", "amqp-get", "amqp-consume")}
MISSING = {
    file: missing for file, needed in NEEDS.items() if (missing := [name for name in needed if not shutil.which(name)])
}
collect_ignore = list(MISSING)


def pytest_report_header() -> list[str]:
    """What is left out."""
    return [f"interop: {file} is left out, there is no {' and no '.join(names)}" for file, names in MISSING.items()]


@pytest.fixture(scope="session")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Where the node listens: guest, guest, /."""
    with node(tmp_path_factory.mktemp("interop")) as port:
        yield port


@pytest.fixture(scope="session")
def url(port: int) -> str:
    return f"amqp://guest:guest@127.0.0.1:{port}/"
