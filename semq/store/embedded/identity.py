"""The user that runs the embedded Postgres: the user of the node or, for root, another user.

No account is added to the machine, and no directory is opened to other users.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from semq.store.embedded.errors import DataDirForeign, RootRefused

NOBODY = 65534  # must be a uid with an entry in /etc/passwd, because Postgres looks up the name of its user


class SystemUser(Struct, frozen=True):
    """A user for the server programs. Commands begin with ``prefix``; ``owner`` is the uid of the files."""

    name: str
    prefix: tuple[str, ...]
    owner: int

    def command(self, *argv: str) -> list[str]:
        return [*self.prefix, *argv]

    def give_tree(self, folder: Path) -> None:
        """Give a folder and its content to the owner. An earlier start may have used another identity."""
        if os.geteuid() != 0 or folder.stat().st_uid == self.owner:
            return
        for path in (folder, *folder.rglob("*")):
            self.give(path)

    def give(self, path: Path) -> None:
        """Give one file or folder to the owner; do nothing if this process is not root."""
        if os.geteuid() == 0:
            os.chown(path, self.owner, self.owner, follow_symlinks=False)


# Ways for root to run a program as another user, best first. In a user namespace the files remain root's. Where
# namespaces are forbidden (most containers), uid nobody keeps one capability of root: to enter folders such as /root.
# Postgres checks its own program by access(2), for which the capability needs no_setuid_fixup.
AS_ROOT = (
    SystemUser("namespace", ("unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}", "--"), 0),
    SystemUser(
        "nobody",
        ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=+dac_override",
         "--ambient-caps=+dac_override", "--securebits=+no_setuid_fixup", "--"),
        NOBODY,
    ),
    SystemUser("plain nobody", ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"), NOBODY),
)  # fmt: skip


def find_identity(program: str, choices: Sequence[SystemUser] = AS_ROOT) -> SystemUser:
    """Return the first identity under which ``program --version`` runs; if this process is not root, its own user.

    Raises RootRefused(tried).
    """
    if os.geteuid() != 0:
        return SystemUser("self", (), os.geteuid())
    for identity in choices:
        if _runs(identity.command(program, "--version")):
            return identity
    raise RootRefused(tried=[identity.name for identity in choices])


def refuse_foreign(folder: Path) -> None:
    """Raise DataDirForeign if an ordinary user is to use the data of another user."""
    if os.geteuid() != 0 and folder.stat().st_uid != os.geteuid():
        raise DataDirForeign(folder=str(folder), owner=folder.stat().st_uid, we_are=os.geteuid())


def _runs(argv: list[str]) -> bool:
    try:
        return subprocess.run(argv, cwd="/", capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
