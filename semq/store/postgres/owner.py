"""The owner of a store: a process with a unique name, and a lock by which another process can prove that the owner has
ended.

A second process of a node waits until the lease of the first has expired (``lease``). It need not wait if it gets the
lock of the first: the kernel releases this lock at the end of a process.

| lock of the earlier process          | next process in the same place | elsewhere, or on another machine         |
|--------------------------------------|--------------------------------|------------------------------------------|
| the lock of its data directory       | takes over immediately         | waits until the lease has expired        |
| none: the directory cannot be locked | waits                          | waits                                    |
| the lock of its embedded database    | takes over immediately         | impossible: there it is another database |
"""

import fcntl
import os
from pathlib import Path
from typing import IO

from msgspec import Struct

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LOCK = "owner.lock"
EMBEDDED = "embedded"  # place of every owner of an embedded database, which is only opened with its own lock held
NOWHERE = "-"


class Owner(Struct, frozen=True):
    """One process: ``node`` and ``host`` for people, ``process`` drawn at random, ``place`` the name of its lock.

    No field contains a blank, which separates them in ``store_lease.owner``.
    """

    node: str
    host: str
    process: str
    place: str = NOWHERE

    def __str__(self) -> str:
        return f"{self.node} {self.host} {self.process} {self.place}"


class PlaceLock:
    """The lock of a node's data directory."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / LOCK
        self._held: IO[str] | None = None

    def take(self) -> str:
        """Lock the place for this process, and return its name; NOWHERE if it cannot be locked.

        The name identifies the lock in the kernel: boot of the machine, file system, file.
        """
        if self._held is None:
            self._held = self._locked()
        if self._held is None:
            return NOWHERE
        try:
            boot = BOOT_ID.read_text("ascii").strip()
        except OSError:
            return NOWHERE
        facts = os.fstat(self._held.fileno())
        return f"{boot}/{facts.st_dev}/{facts.st_ino}"

    def release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def _locked(self) -> IO[str] | None:
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            stream = self._file.open("a")
        except OSError:
            return None
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.close()
            return None
        return stream
