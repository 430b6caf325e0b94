"""The service files name commands, keys and variables that exist."""

import re
import subprocess
from pathlib import Path

import pytest

from semq.config.names import leads_somewhere

ROOT = Path(__file__).parents[1]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_what_run_offers(unit: Path) -> None:
    [start] = re.findall(r"^ExecStart=/opt/semq/run (\S+) (\S+) --config (\S+)$", unit.read_text(), re.MULTILINE)
    command, kind, _ = start
    offered = subprocess.run([str(ROOT / "run"), "help"], capture_output=True, text=True, check=True).stdout
    assert re.search(rf"^  {command} .*\b{kind}\b", offered, re.MULTILINE)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_names_settings_that_exist(unit: Path) -> None:
    variables = re.findall(r"SEMQ_([A-Z0-9_]+)=", unit.read_text())
    assert variables
    assert all(leads_somewhere(name.lower().split("__")) for name in variables)
