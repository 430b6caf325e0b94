"""``./run release``: make a release in var/release, or only check what would be released."""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from shutil import which as find_program
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree as ET

from release import checksums, image, installs, inventory
from release.packages import ROOT, build, is_committed
from semq import __version__

OUTPUT = ROOT / "var" / "release"
ROOTS = ROOT / "var" / "roots"
ALERT_TESTS = "tests/deploy/test_alert_rules.py"
ALERT_TEST = "test_a_rule_fires_with_its_texts_and_is_silent_in_a_similar_situation["
RULES = ROOT / "deploy" / "prometheus" / "semq.rules.yml"


def read_options(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line. A usage error ends the process with status 2."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="./run release",
        description=f"Build wheel and sdist twice, install them in empty environments and try them, list all "
        f"dependencies, build the documentation and test the alert rules; then write the release to {OUTPUT}.",
        epilog="Exit status: 0 all checks passed; 1 otherwise; 2 wrong usage. To verify the files of a release: "
        + "; ".join(checksums.VERIFY),
    )
    add = parser.add_argument
    add("--check", action="store_true", help="only check, also sources with changes that are not committed")
    add("--json", action="store_true", help="print one JSON object on standard output")
    add("--sign", type=Path, metavar="KEY", help="private key of SSH that signs the checksums")
    add(
        "--everywhere",
        action="store_true",
        help="install also for each Python in PATH, in roots of Debian 12, 13 and unstable, and by the steps of the "
        "Containerfile (root, debootstrap)",
    )
    add("--roots", type=Path, default=ROOTS, metavar="DIR", help=f"folder of these roots; default: {ROOTS}")
    options = parser.parse_args(argv)
    if not options.check and not is_committed():
        parser.error("the sources have changes that are not committed: commit them, or give --check")
    if options.everywhere and (os.geteuid() != 0 or find_program("debootstrap") is None):
        parser.error("--everywhere needs root and debootstrap: apt-get install debootstrap")
    if options.sign is not None and not options.sign.is_file():
        parser.error(f"--sign: there is no file {options.sign}")
    return options


def main() -> int:
    """Make or check a release; return the exit status."""
    options = read_options()
    with ExitStack() as exits:
        folder = OUTPUT if not options.check else Path(exits.enter_context(TemporaryDirectory(prefix="semq-release-")))
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        try:
            facts = make(folder, options)
        except subprocess.CalledProcessError as error:
            say(f"{' '.join(map(str, error.cmd))}: status {error.returncode}\n{error.stderr or ''}{error.stdout or ''}")
            return 1
    if options.json:
        print(json.dumps(facts))
    return 0 if facts["ok"] else 1


def make(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Build, check and describe the packages in a folder; return the facts. Raises CalledProcessError."""
    say(f"building semq {__version__} twice")
    archives = build(folder)
    with TemporaryDirectory() as other:
        same = [one.read_bytes() for one in build(Path(other))] == [one.read_bytes() for one in archives]
    say(f"  the same bytes: {'yes' if same else 'NO'}")
    components, unknown, audit = describe(folder, archives[0])
    installations = []
    for one in install(archives, options):
        say(f"  {one.system}, Python {one.python}, {one.by}: {'yes' if one.ok else one.fault}")
        installations.append(one)
    strict = builds_documentation()
    tested, total = rules()
    if not options.check:
        sums = checksums.write_sums(folder.iterdir(), folder)
        if options.sign is not None:
            checksums.sign(sums, options.sign)
        say(f"{folder}: {', '.join(sorted(file.name for file in folder.iterdir()))}")
    return {
        "ok": same and all(one.ok for one in installations) and strict is True and tested == total and not audit.found,
        "version": __version__,
        "wheel_reproducible": same,
        "installs": [asdict(one) for one in installations],
        "docs_strict": strict,
        "sbom_components": components,
        "licences_unknown": unknown,
        "vulnerabilities": audit.found,
        "audit": audit.note or "complete",
        "rules_tested": tested,
        "rules_total": total,
    }


def describe(folder: Path, wheel: Path) -> tuple[int, list[str], inventory.SearchResult]:
    """Write constraints, SBOM and licences; return the number of components, those without licence, and the audit."""
    say("installing the wheel with all extras, for the SBOM (some 500 MB)")
    with TemporaryDirectory(prefix="semq-sbom-") as environment:
        constraints = folder / "constraints.txt"
        python = inventory.make_environment(Path(environment), wheel, constraints)
        components = inventory.write_sbom(python, folder / "sbom.cdx.json")
    rows = inventory.licences(components)
    (folder / "LICENCES.tsv").write_text(
        "".join("\t".join(row) + "\n" for row in [("package", "version", "licence"), *rows])
    )
    unknown = [name for name, _, licence in rows if not licence]
    say(f"  {len(rows)} components; without a stated licence: {', '.join(unknown) or 'none'}")
    audit = inventory.audit(constraints)
    say(f"  known vulnerabilities: {audit.note or ', '.join(audit.found or ()) or 'none'}")
    return len(rows), unknown, audit


def install(archives: tuple[Path, Path], options: argparse.Namespace) -> Iterator[installs.InstallationResult]:
    """Install the archives in every wanted way."""
    say("installing in empty environments, each with a tour of a hub and two institutions")
    yield from installs.here(archives, installs.usable_pythons() if options.everywhere else [sys.executable])
    if not options.everywhere:
        return
    for release in installs.RELEASES:
        yield from installs.in_root(options.roots / release, release, archives[0])
    yield image.try_image(options.roots)


def builds_documentation() -> bool | None:
    """Return whether the documentation can be built strictly; None if there is no command for it."""
    if "\ndocs " not in (ROOT / "run").read_text("utf-8"):
        return None
    say("building the documentation")
    return subprocess.run([ROOT / "run", "docs"], stdout=sys.stderr, check=False).returncode == 0


def rules() -> tuple[int, int]:
    """Return the number of alert rules whose test passes, by promtool, and the number of all rules."""
    say("testing the alert rules")
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [str(ROOT / "run"), "test", ALERT_TESTS, "-q", f"--junitxml={report}"]
        subprocess.run(command, stdout=sys.stderr, check=False)
        passed = names_of_passed(report.read_text("utf-8")) if report.exists() else set()
    alerts = names_of_alerts(RULES.read_text("utf-8"))
    return sum(f"{ALERT_TEST}{alert}]" in passed for alert in alerts), len(alerts)


def names_of_alerts(text: str) -> list[str]:
    """Return the names of the alerts in a file of rules."""
    return re.findall(r"^ +- alert: (\w+)", text, re.MULTILINE)


def names_of_passed(report: str) -> set[str]:
    """Return the names of the tests that have passed, from a report in the format of JUnit."""
    outcomes = ("failure", "error", "skipped")
    return {
        case.attrib["name"]
        for case in ET.fromstring(report).iter("testcase")
        if not any(case.find(outcome) is not None for outcome in outcomes)
    }


def say(text: str) -> None:
    """Print progress on standard error."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
