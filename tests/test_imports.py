"""Entry points import their programs while garbage collection is off, without packages of Spark and of the tests."""

import gc
import subprocess
import sys
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from semq import imports
from semq.imports import lasting_imports

ROOT = Path(__file__).parents[1]
ENTRIES = ["local_node", "platform_node", "semq.web", "semq.folders", "semq.webhooks"]


def test_collections_are_off_in_the_block_only() -> None:
    gc.unfreeze()
    with lasting_imports():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_collections_are_enabled_again_after_a_failed_import() -> None:
    with pytest.raises(ImportError), lasting_imports():
        raise ImportError
    assert gc.isenabled()


def test_an_unused_package_is_hidden_in_the_block_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "UNUSED", ("colorsys",))
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with lasting_imports(), pytest.raises(ImportError):
        import_module("colorsys")
    assert import_module("colorsys").__name__ == "colorsys"
    with lasting_imports():
        assert import_module("colorsys").__name__ == "colorsys"  # a package in use stays


# Package | why an idle node does not have it.
NOT_IN_A_NODE = {
    "alembic": "used for a migration only",
    "jinja2": "templates of the web process",
    "pygments": "imported by rich",
    "rich": "output of the command line and the demo",
    "starlette": "web process",
}


@pytest.mark.parametrize("entry", ["local_node", "platform_node"])
def test_a_node_does_not_import_heavy_packages_that_it_does_not_use(entry: str) -> None:
    program = f"""
import runpy, sys
sys.argv = ["{entry}", "--help"]
try:
    runpy.run_module("{entry}", run_name="__main__")
except SystemExit:
    sys.stderr.write(" ".join(sorted({{*sys.modules}} & {{*{list(NOT_IN_A_NODE)}}})))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def packages_in(lock: str) -> set[str]:
    """Return the canonical names in a lock file."""
    lines = (ROOT / lock).read_text().splitlines()
    return {canonicalize_name(line.partition("==")[0]) for line in lines if line[:1].isalnum()}


@cache
def absent_modules() -> list[str]:
    """Return the modules that only the reconciliation and the tests need."""
    absent = packages_in("requirements-test.lock") - packages_in("requirements-base.lock")
    return [module for module, names in packages_distributions().items() if {*map(canonicalize_name, names)} <= absent]


@pytest.mark.parametrize("entry", ["semq.cli", *ENTRIES])
def test_a_program_starts_without_collections_and_with_the_base_packages_alone(entry: str) -> None:
    """Exception: collections go on while the command line is imported."""
    assert {"pyarrow", "pyspark"} <= {*absent_modules()}
    program = f"""
import gc, runpy, sys
sys.modules.update(dict.fromkeys({absent_modules()}))
begun = []
gc.callbacks.append(lambda phase, info: phase == "start" and begun.append(gc.isenabled()))
gc.collect()
sys.argv = ["{entry}", "--help"]
try:
    runpy.run_module("{entry}", run_name="__main__")
except SystemExit as end:
    are_off = len(begun) == 1  # only the collection above
    sys.stderr.write(f"{{end.code}} {{gc.isenabled()}} {{are_off}} {{gc.get_freeze_count() > 20_000}}")
if "{entry}" == "semq.web":
    import semq.console.routes
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    is_lasting = entry != "semq.cli"
    assert (done.returncode, done.stderr) == (0, f"0 True {is_lasting} {is_lasting}")
