"""What SEMQ consists of: an SBOM of all dependencies, their licences, and their known vulnerabilities.

All three are about one environment, in which the wheel was installed with its extras in the versions of the locks.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from release.packages import ROOT, date_of_sources, locked_versions

EXTRAS = "spark,oidc"
# Packages that a virtual environment has of itself
OF_ENVIRONMENT = {"pip", "setuptools"}


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search for known vulnerabilities."""

    found: list[str] | None  #: as "package version: ID"; None: the search could not run
    note: str = ""  #: why it could not


def make_environment(folder: Path, wheel: Path, constraints: Path) -> Path:
    """Install a wheel with all extras in the versions of the locks; return the interpreter.

    Writes the versions to ``constraints``. Raises CalledProcessError.
    """
    python = folder / "bin" / "python"
    _run(sys.executable, "-m", "venv", str(folder))
    locked = folder / "locked.txt"
    locked.write_text(locked_versions("test"))  # the only lock with the packages of all extras
    _run(str(python), "-m", "pip", "install", "-qq", "-c", str(locked), f"semq[{EXTRAS}] @ {wheel.resolve().as_uri()}")
    frozen = _run(str(python), "-m", "pip", "freeze", "-qq", "--exclude", "semq")
    constraints.write_text(frozen)
    return python


def write_sbom(python: Path, file: Path) -> list[dict[str, Any]]:
    """Write the SBOM of an environment in the format of CycloneDX, and return its components.

    Raises CalledProcessError.
    """
    _run(
        sys.executable, "-m", "cyclonedx_py", "environment", str(python), "--pyproject", str(ROOT / "pyproject.toml"),
        "--mc-type", "application", "--output-reproducible", "--of", "JSON", "-o", str(file),
        SOURCE_DATE_EPOCH=str(date_of_sources()),
    )  # fmt: skip
    bill = json.loads(file.read_text("utf-8"))
    bill["components"] = [
        component for component in bill["components"] if component["name"] not in {*OF_ENVIRONMENT, "semq"}
    ]
    file.write_text(json.dumps(bill, indent=1) + "\n")
    components: list[dict[str, Any]] = bill["components"]
    return components


def licences(components: Sequence[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return name, version and licence of each component; the licence is empty if its package states none."""
    return sorted((one["name"], one["version"], _licence(one)) for one in components)


def _licence(component: dict[str, Any]) -> str:
    stated = []
    for entry in component.get("licenses", ()):
        licence = entry.get("license", {})
        stated.append(entry.get("expression") or licence.get("id") or licence.get("name", ""))
    # Some packages state the text of the licence as its name.
    return "; ".join(dict.fromkeys(text.strip().partition("\n")[0] for text in stated))


def audit(constraints: Path) -> SearchResult:
    """Search the versions in a file for known vulnerabilities by pip-audit, which asks a database in the network."""
    done = subprocess.run(
        [
            sys.executable, "-m", "pip_audit", "-r", str(constraints), "--no-deps", "--disable-pip",
            "--format", "json", "--progress-spinner", "off",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        dependencies = json.loads(done.stdout)["dependencies"]
    except (ValueError, LookupError):
        return SearchResult(None, f"pip-audit: {done.stderr.strip().rpartition(chr(10))[2]}")
    known = [one for one in dependencies if "skip_reason" not in one]
    if len(known) < len(dependencies):
        number = len(dependencies) - len(known)
        return SearchResult(
            None, f"the database that pip-audit reaches from here does not know {number} of the packages"
        )
    return SearchResult([f"{one['name']} {one['version']}: {fault['id']}" for one in known for fault in one["vulns"]])


def _run(*command: str, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | variables
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
