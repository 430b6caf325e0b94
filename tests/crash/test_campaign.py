"""Twenty cycles of a campaign on real processes, judged as by hand: ``./run crash --cycles 20``."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CYCLES = 20


def test_nothing_is_lost_and_nothing_doubled_whoever_is_killed() -> None:
    """A seed of its own each time; a failure prints it, and the command that repeats the campaign."""
    command = [sys.executable, "-P", "-m", "tests.crash", "--cycles", str(CYCLES), "--group", "10", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    said = ended.stderr.decode(errors="replace")
    assert ended.stdout, said
    report = json.loads(ended.stdout.decode().splitlines()[-1])
    verdict = {name: report[name] for name in ("violations", "lost", "duplicated", "unclean")}
    assert verdict == dict.fromkeys(verdict, 0), said
    assert ended.returncode == 0, said
    assert report["cycles"] == CYCLES
    assert report["faults"] == sum(report["faults_by_kind"].values()) >= CYCLES
    assert report["documents"]["class_3"] > CYCLES
    assert report["steps"] > report["documents"]["accepted"]
