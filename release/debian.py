"""Roots of releases of Debian, made by debootstrap, in which commands run by chroot. Needs root."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
NO_SERVICES = "#!/bin/sh\nexit 101\n"  # answer of policy-rc.d: packages start nothing
# A frozen mirror keeps a release of unstable for longer than it is valid.
ANY_DATE = ("-o", "Acquire::Check-Valid-Until=false")
# Settings of this machine without which a root does not reach its registries
OF_MACHINE = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")


def make_root(root: Path, release: str, packages: Sequence[str]) -> None:
    """Install a release of Debian in ``root`` unless it is there, then the packages that are missing.

    Raises CalledProcessError, OSError.
    """
    if not (root / "etc/debian_version").exists():
        root.mkdir(parents=True, exist_ok=True)
        _run("debootstrap", "--variant=minbase", f"--keyring={KEYS}", release, str(root))  # from its default mirror
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text(NO_SERVICES)
    policy.chmod(0o755)
    missing = [name for name in packages if not (root / f"var/lib/dpkg/info/{name}.list").exists()]
    if missing:
        _run("chroot", str(root), "apt-get", *ANY_DATE, "update", "-qq")
        _run("chroot", str(root), "apt-get", "install", "-qq", "-y", "--no-install-recommends", *missing)


def share_network_settings(root: Path) -> None:
    """Copy the settings of this machine for registries into a root."""
    for path in map(Path, OF_MACHINE):
        if path.exists():
            target = root / path.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def inside(root: Path, *, network: bool = True) -> list[str]:
    """Return the beginning of a command that runs in a root with processes, and if wanted a network, of its own."""
    spaces = ["--mount", "--pid", "--fork", f"--mount-proc={root}/proc", *([] if network else ["--net"])]
    return ["unshare", *spaces, "chroot", str(root)]


def _run(*command: str) -> None:
    own = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(command, check=True, env=own, capture_output=True, text=True)
