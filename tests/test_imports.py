"""Entry points import their program without garbage collections, which are enabled again afterwards, and without the
packages of the reconciliation and of the tests.
"""

import gc
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from semq.imports import lasting_imports

ROOT = Path(__file__).parents[1]
ENTRIES = ["local_node", "platform_node", "semq.web", "semq.folders", "semq.webhooks"]


def test_collections_are_off_in_the_block_only() -> None:
    with lasting_imports():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    gc.unfreeze()


def test_collections_are_enabled_again_after_a_failed_import() -> None:
    with pytest.raises(ImportError), lasting_imports():
        raise ImportError
    assert gc.isenabled()
    gc.unfreeze()


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_program_starts_without_collections(entry: str) -> None:
    program = f"""
import gc, runpy, sys
begun = []
gc.callbacks.append(lambda phase, info: phase == "start" and begun.append(gc.isenabled()))
gc.collect()
sys.argv = ["{entry}", "--help"]
try:
    runpy.run_module("{entry}", run_name="__main__")
except SystemExit as end:
    sys.stderr.write(f"{{end.code}} {{gc.isenabled()}} {{gc.get_freeze_count() > 20_000}}")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "0 True True"


def names_in(lock: str) -> set[str]:
    """Return the packages of a lock, by their canonical names."""
    lines = (ROOT / lock).read_text().splitlines()
    return {canonicalize_name(line.partition("==")[0]) for line in lines if line[:1].isalnum()}


@pytest.mark.parametrize("entry", ["semq.cli", *ENTRIES])
def test_a_program_starts_with_the_base_packages_alone(entry: str) -> None:
    absent = names_in("requirements-test.lock") - names_in("requirements-base.lock")
    modules = [
        module for module, names in packages_distributions().items() if {*map(canonicalize_name, names)} <= absent
    ]
    assert {"pyarrow", "pyspark"} <= {*modules}
    program = f"""
import runpy, sys
sys.modules.update(dict.fromkeys({modules}))
if "{entry}" == "semq.web":
    import semq.console.routes
sys.argv = ["{entry}", "--help"]
runpy.run_module("{entry}", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
