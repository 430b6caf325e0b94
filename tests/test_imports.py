"""Entry points import their program without garbage collections, which are enabled again afterwards."""

import gc
import subprocess
import sys

import pytest

from semq.imports import lasting_imports

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
