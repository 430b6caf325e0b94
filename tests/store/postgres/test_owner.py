"""The place of an owner: if another process gets the lock of the place, the owner has ended."""

import subprocess
import sys
from pathlib import Path

import pytest

from semq.store.postgres import owner
from semq.store.postgres.owner import NOWHERE, Owner, PlaceLock

HOLDER = """
import sys, time
from pathlib import Path
from semq.store.postgres.owner import PlaceLock
lock = PlaceLock(Path(sys.argv[1]))
print(lock.take(), flush=True)
time.sleep(600)
"""


def test_an_owner_as_text_is_four_words() -> None:
    assert str(Owner("1.10008", "host", "f00")) == "1.10008 host f00 -"


def test_a_process_gets_the_place_of_a_killed_process_but_not_of_a_running_one(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        place = process.stdout.readline().strip()
        lock = PlaceLock(tmp_path)
        assert place != NOWHERE
        assert lock.take() == NOWHERE
        process.kill()
    assert lock.take() == place == lock.take()
    assert PlaceLock(tmp_path).take() == NOWHERE
    lock.release()
    copy = PlaceLock(tmp_path / "copy")
    assert copy.take() not in (place, NOWHERE)
    copy.release()


def test_there_is_no_place_without_a_lock_or_without_the_boot_id_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    assert PlaceLock(tmp_path / "file" / "below").take() == NOWHERE
    monkeypatch.setattr(owner, "BOOT_ID", tmp_path / "none")
    lock = PlaceLock(tmp_path)
    assert lock.take() == NOWHERE
    lock.release()
