"""``./run release``: what it prints and writes, with the slow steps replaced by their results."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import release.__main__ as program
from release.installs import InstallationResult
from release.inventory import SearchResult
from tests.deploy.test_alert_rules import CASES

GOOD = InstallationResult("Debian", "3.11.2", "pip wheel", ok=True, steps=12)
BAD = InstallationResult("Debian", "3.13.5", "pip wheel", ok=False, fault="no Postgres")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that runs the program with these results, and returns its status and its JSON."""

    def build(folder: Path) -> tuple[Path, Path]:
        files = folder / "semq.whl", folder / "semq.tar.gz"
        for file in files:
            file.write_bytes(b"content")
        return files

    def call(*argv: str, **results: Any) -> tuple[int, dict[str, Any]]:
        steps = {
            "build": build,
            "is_committed": lambda: True,
            "describe": lambda *_: (61, [], SearchResult([])),
            "install": lambda *_: iter([GOOD]),
            "builds_documentation": lambda: True,
            "rules": lambda: (17, 17),
        }
        for name, step in (steps | results).items():
            monkeypatch.setattr(program, name, step)
        monkeypatch.setattr(program, "OUTPUT", tmp_path / "release")
        monkeypatch.setattr("sys.argv", ["release", "--json", *argv])
        status = program.main()
        return status, json.loads(capsys.readouterr().out or "{}")

    return call


def test_a_check_prints_its_facts_and_writes_nothing(run: Any, tmp_path: Path) -> None:
    status, facts = run("--check")
    assert status == 0
    assert facts["installs"] == [
        {"system": "Debian", "python": "3.11.2", "by": "pip wheel", "ok": True, "steps": 12, "fault": ""}
    ]
    expected = {"wheel_reproducible": True, "docs_strict": True, "sbom_components": 61, "audit": "complete"}
    assert facts | expected | {"rules_tested": 17, "rules_total": 17} == facts
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize(
    "fault",
    [
        {"install": lambda *_: iter([GOOD, BAD])},
        {"builds_documentation": lambda: False},
        {"builds_documentation": lambda: None},
        {"rules": lambda: (16, 17)},
        {"describe": lambda *_: (61, [], SearchResult(["jinja2 3.1: CVE-1"]))},
    ],
)
def test_a_fault_of_any_step_fails_the_check(run: Any, fault: dict[str, Any]) -> None:
    status, facts = run("--check", **fault)
    assert (status, facts["ok"]) == (1, False)


def test_a_search_for_vulnerabilities_that_cannot_run_is_no_fault_and_is_named(run: Any) -> None:
    status, facts = run("--check", describe=lambda *_: (61, [], SearchResult(None, "no way to the database")))
    assert (status, facts["vulnerabilities"], facts["audit"]) == (0, None, "no way to the database")


def test_tests_with_output_have_passed_and_failed_and_skipped_ones_have_not() -> None:
    kinds = ("<system-out>x</system-out>", "<failure/>", "<error/>", "<skipped/>", "")
    cases = "".join(f'<testcase name="{number}">{kind}</testcase>' for number, kind in enumerate(kinds))
    assert program.names_of_passed(f"<testsuites><testsuite>{cases}</testsuite></testsuites>") == {"0", "4"}


def test_a_release_has_signed_checksums_of_its_files(run: Any, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    assert run("--sign", str(key))[0] == 0
    folder = tmp_path / "release"
    names = {file.name for file in folder.iterdir()}
    assert names == {"semq.whl", "semq.tar.gz", "SHA256SUMS", "SHA256SUMS.sig", "allowed_signers"}
    assert [line.split()[1] for line in (folder / "SHA256SUMS").read_text().splitlines()] == ["semq.tar.gz", "semq.whl"]


@pytest.mark.parametrize(
    ("argv", "state", "named"),
    [
        ([], {"is_committed": lambda: False}, "commit them"),
        (["--sign", "/nowhere/key"], {}, "/nowhere/key"),
        (["--check", "--everywhere"], {"find_program": lambda name: None}, "apt-get install debootstrap"),
    ],
)
def test_a_release_that_lacks_something_is_refused_before_it_begins(
    run: Any, capsys: pytest.CaptureFixture[str], argv: list[str], state: dict[str, Any], named: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*argv, **state)
    assert ended.value.code == 2
    assert named in capsys.readouterr().err


def test_the_alerts_of_the_rules_are_those_that_have_cases() -> None:
    assert program.names_of_alerts(program.RULES.read_text("utf-8")) == list(CASES)
