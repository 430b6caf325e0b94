"""The planted faults: each fits the sources once, has programs that exist, and a trial that is taken back."""

from pathlib import Path

import pytest

from tests.planted import trial
from tests.planted.__main__ import SURVIVORS
from tests.planted.table import ROOT, SIMULATE, FaultUnreadable, PlantedFault, read_faults
from tests.planted.trial import BROKEN, KILLED, SURVIVED

FAULTS = read_faults()
PLANTED_MIN = 150


def test_every_planted_fault_fits_its_file_once_and_makes_another_program() -> None:
    for fault in FAULTS:
        text = (ROOT / fault.file).read_text("utf-8")
        changed = fault.applied(text)
        assert changed != text, fault.name
        if fault.file.endswith(".py"):
            compile(changed, fault.file, "exec")


def test_names_are_unique_and_killers_exist() -> None:
    assert len(FAULTS) >= PLANTED_MIN
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert {fault.name for fault in FAULTS} >= SURVIVORS.keys()
    paths = {killer.partition("::")[0] for fault in FAULTS for killer in fault.killers if killer[0] != "-"}
    assert [path for path in sorted(paths) if not path.startswith(SIMULATE) and not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "lines", [["+ new"], ["- old", "+ new", "- old"], ["other"]], ids=["without old", "old after new", "no mark"]
)
def test_a_row_of_another_form_is_refused(lines: list[str]) -> None:
    fault = PlantedFault("room", "name", "file", ())
    *first, last = lines
    for line in first:
        fault.add(line)
    with pytest.raises(FaultUnreadable):
        fault.add(last)


def test_a_text_that_is_there_twice_is_refused() -> None:
    fault = PlantedFault("room", "name", "file", ())
    fault.add("- a")
    with pytest.raises(FaultUnreadable, match="2 times"):
        fault.applied("a a")


def test_a_trial_says_whether_a_test_failed_and_takes_the_fault_out(tmp_path: Path) -> None:
    fault = next(fault for fault in FAULTS if fault.name == "the interval does not grow")
    seen = "tests/umx_t/test_retry.py::test_the_interval_doubles_up_to_the_limit"
    unseen = "tests/umx_t/test_retry.py::test_an_interval_stays_within_its_bounds"
    original = (ROOT / fault.file).read_text("utf-8")
    with trial.copy_of_sources(tmp_path) as copy:
        for killers, outcome in (((seen,), KILLED), ((unseen,), SURVIVED), (("tests/umx_t/none.py",), BROKEN)):
            tried = PlantedFault(fault.room, fault.name, fault.file, killers, fault._old, fault._new)
            assert trial.run_trial(tried, copy, 300.0).outcome == outcome
            assert (copy / fault.file).read_text("utf-8") == original
    assert (ROOT / fault.file).read_text("utf-8") == original
