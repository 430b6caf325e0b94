"""Checksums of the files of a release, in the format of sha256sum, and their signature by an SSH key.

An SSH signature needs no key server: a user who trusts the key has one line, `allowed_signers`, and `ssh-keygen`.
"""

import subprocess
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

SUMS, SIGNERS = "SHA256SUMS", "allowed_signers"
IDENTITY, NAMESPACE = "releases@semq", "semq-release"
VERIFY = (
    f"ssh-keygen -Y verify -f {SIGNERS} -I {IDENTITY} -n {NAMESPACE} -s {SUMS}.sig < {SUMS}",
    f"sha256sum -c {SUMS}",
)  #: commands for the users of a release


def write_sums(files: Iterable[Path], folder: Path) -> Path:
    """Write the checksums of files in ``folder``, and return the file."""
    lines = [f"{sha256(file.read_bytes()).hexdigest()}  {file.relative_to(folder)}\n" for file in sorted(files)]
    sums = folder / SUMS
    sums.write_text("".join(lines))
    return sums


def sign(sums: Path, key: Path) -> None:
    """Sign the checksums by a private key of SSH, and write the public key for verifiers.

    Raises CalledProcessError, OSError.
    """
    signature = sums.with_name(f"{SUMS}.sig")
    signature.unlink(missing_ok=True)
    _run("ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(sums))
    public = _run("ssh-keygen", "-y", "-f", str(key)).split()[:2]
    sums.with_name(SIGNERS).write_text(f'{IDENTITY} namespaces="{NAMESPACE}" {" ".join(public)}\n')


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
