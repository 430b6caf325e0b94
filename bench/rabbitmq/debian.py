"""RabbitMQ of another release of Debian, in a folder of its own, from which it is started by chroot.

``install`` needs root, Debian's package debootstrap, and some 300 MB; it takes a minute. RabbitMQ's alarm of memory
does not work there, because the folder has no /proc.
"""

import os
import subprocess
from pathlib import Path

KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR = "http://deb.debian.org/debian"
RELEASE = "trixie"  # Debian 13 has RabbitMQ 4.0
NO_SERVICES = "#!/bin/sh\nexit 101\n"  # answer of policy-rc.d: packages start nothing


def install(root: Path, release: str = RELEASE) -> None:
    """Install a release of Debian with RabbitMQ in ``root``, unless it is there already."""
    if (root / "usr/lib/rabbitmq/bin/rabbitmq-server").exists():
        return
    root.mkdir(parents=True, exist_ok=True)
    if not (root / "etc/debian_version").exists():
        _run("debootstrap", "--variant=minbase", f"--keyring={KEYS}", release, str(root), MIRROR)
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text(NO_SERVICES)
    policy.chmod(0o755)
    _run("chroot", str(root), "apt-get", "update", "-qq")
    _run("chroot", str(root), "apt-get", "install", "-qq", "-y", "--no-install-recommends", "rabbitmq-server")


def give_to_rabbitmq(root: Path, folder: Path) -> None:
    """Make the user of RabbitMQ in ``root`` the owner of a folder and its files."""
    users = (line.split(":") for line in (root / "etc/passwd").read_text().splitlines())
    user, group = next((int(fields[2]), int(fields[3])) for fields in users if fields[0] == "rabbitmq")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, group)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
