"""``./run`` selects the interpreter for its environment, here among simulated ones in a separate PATH."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# A program that answers the questions of ``./run``, and prints its path instead of creating an environment.
SIMULATED_INTERPRETER = """#!/bin/sh
case "$*" in
    *version_info*|*flock*) exit 0 ;;
    *ensurepip*) exit {lacks_venv:d} ;;
    *interpreter.py) exit {lacks_optimisations:d} ;;
    "-m venv "*) echo "selected: $0" >&2; exit 9 ;;
esac
exit 1
"""
NOTE = "without optimisations"
TOOLS = "sh cat cksum id rm".split()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout for ``./run setup``, without an environment."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("run", "requirements-base.lock", "requirements-test.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def simulate_interpreter(folder: Path, name: str, *, optimized: bool, has_venv: bool = True) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(SIMULATED_INTERPRETER.format(lacks_optimisations=not optimized, lacks_venv=not has_venv))
    file.chmod(0o755)
    return file


def set_up(checkout: Path, *folders: Path, **environment: str) -> str:
    """Run ``./run setup`` with the interpreters in ``folders``; return its stderr."""
    tools = checkout.parent / "tools"  # the folders of the machine contain interpreters
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(str(shutil.which(name)))
    path = ":".join(map(str, [*folders, tools]))
    done = subprocess.run(
        [checkout / "run", "setup", "base"],
        env={**{k: v for k, v in os.environ.items() if k != "PYTHON"}, "PATH": path, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    return done.stderr


def test_an_optimized_interpreter_is_selected_although_another_one_comes_first(checkout: Path, tmp_path: Path) -> None:
    simulate_interpreter(tmp_path / "first", "python3.11", optimized=False)
    optimized = simulate_interpreter(tmp_path / "second", "python3.11", optimized=True)
    result = set_up(checkout, tmp_path / "first", tmp_path / "second")
    assert f"selected: {optimized}" in result
    assert NOTE not in result


def test_a_newer_optimized_interpreter_is_preferred_to_an_older_one_without_optimisations(
    checkout: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "one"
    simulate_interpreter(folder, "python3.11", optimized=False)
    assert f"selected: {simulate_interpreter(folder, 'python3.12', optimized=True)}" in set_up(checkout, folder)


def test_a_named_python_is_used_with_a_note_about_its_build(checkout: Path, tmp_path: Path) -> None:
    simulate_interpreter(tmp_path / "first", "python3.11", optimized=True)
    named = simulate_interpreter(tmp_path / "second", "mine", optimized=False)
    result = set_up(checkout, tmp_path / "first", PYTHON=str(named))
    assert f"selected: {named}" in result
    assert f"{named} was built {NOTE}" in result


def test_an_interpreter_that_can_create_environments_is_preferred_to_an_optimized_one_that_cannot(
    checkout: Path, tmp_path: Path
) -> None:
    simulate_interpreter(tmp_path / "first", "python3.11", optimized=True, has_venv=False)
    able = simulate_interpreter(tmp_path / "second", "python3.11", optimized=False)
    result = set_up(checkout, tmp_path / "first", tmp_path / "second")
    assert f"selected: {able}" in result
    assert NOTE in result


@pytest.fixture
def prepared(checkout: Path) -> Path:
    """Return a checkout whose environment has the base group; its Python succeeds, and prints nothing."""
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 0\n")
    python.chmod(0o755)
    stamp = "root=$(pwd -P); echo $(cksum $root/requirements-base.lock $root/pyproject.toml) >.venv/ready-base"
    subprocess.run(["sh", "-c", stamp], cwd=checkout, check=True)
    return checkout


def test_setup_ends_with_what_is_ready_and_the_next_command(prepared: Path) -> None:
    done = subprocess.run([prepared / "run", "setup"], capture_output=True, text=True, check=True)
    [line] = done.stdout.splitlines()
    assert line.startswith(f"Ready: {prepared / '.venv'} has the packages of the group 'base'. Next: ./run demo ")
    assert done.stderr == "  compiling bytecode\n"


def test_each_step_of_a_set_up_is_named_and_what_tests_share_with_spark_is_installed_once(
    prepared: Path, tmp_path: Path
) -> None:
    venv, log = prepared / ".venv", tmp_path / "log"
    for name in ("spark", "docs"):
        shutil.copy(ROOT / f"requirements-{name}.lock", prepared)
    (venv / "root").write_text(f"{prepared}\n")
    (venv / "bin" / "python").write_text(f'#!/bin/sh\necho "$*" >>{log}\n')
    tools = tmp_path / "tools"  # without the package manager and browsers of this machine
    tools.mkdir()
    for name in (*TOOLS, "touch", "find", "getconf"):
        (tools / name).symlink_to(str(shutil.which(name)))

    def run(*words: str) -> tuple[list[str], list[str]]:
        """Return the lines on stderr, and the commands of the environment's Python without those of the compiler."""
        log.write_text("")
        environment = {**os.environ, "PYTHON": sys.executable, "PATH": str(tools)}
        done = subprocess.run([prepared / "run", *words], env=environment, capture_output=True, text=True, check=True)
        return done.stderr.splitlines(), [line for line in log.read_text().splitlines() if "compileall" not in line]

    said, commands = run("setup", "test")
    assert said == [
        f"Bringing {venv} up to date for 'test' ...", "  installing the packages of the group 'test'",
        "  compiling bytecode",
    ]  # fmt: skip
    assert not any("-m pytest" in command or "class_archive" in command for command in commands)
    assert run("reconcile", "run") == ([], ["-P -m spark_reconcile run"])
    said, commands = run("test", "--quick")
    assert [line.partition(" (")[0] for line in said] == ["  collecting the tests for the first time"]
    assert [command.partition(" -q")[0] for command in commands] == ["-P -m pytest"] * 2
    assert [len(part) for part in run("test", "--quick")] == [0, 1]
    assert [line.partition(" (")[0] for line in run("setup", "spark")[0]] == [
        "  compiling bytecode", "  archiving the classes of Spark",
    ]  # fmt: skip
    assert run("setup", "spark")[0] == ["  compiling bytecode"]


def test_an_update_keeps_the_archive_of_classes_unless_it_brings_other_jars(prepared: Path) -> None:
    venv = prepared / ".venv"
    (venv / "root").write_text(f"{prepared}\n")
    archive, jars = venv / "semq-spark-classes.jsa", venv / "lib" / "python3" / "site-packages" / "pyspark" / "jars"
    jars.mkdir(parents=True)
    archive.touch()

    def update(jars_age_s: int) -> tuple[bool, bool]:
        """Update the base group; return whether the archive is kept, and whether another one is made."""
        made_at = archive.stat().st_mtime
        os.utime(jars, (made_at - jars_age_s, made_at - jars_age_s))
        (venv / "ready-base").unlink()
        done = subprocess.run([prepared / "run", "setup"], capture_output=True, text=True, check=True)
        return archive.exists(), "archiving the classes of Spark" in done.stderr

    assert update(60) == (True, False)
    assert update(-60) == (False, True)


def test_a_set_up_says_how_far_pip_is_and_repeats_its_errors(prepared: Path) -> None:
    (prepared / ".venv" / "ready-base").unlink()
    (prepared / ".venv" / "root").write_text(f"{prepared}\n")
    printed = [*(f"Collecting package-{number}" for number in range(26)), "Downloading large-1.tar.gz (455.3 MB)"]
    printed += ["Downloading small-1.whl (12 kB)", "WARNING: nobody needs this", "Installing collected packages: large"]
    python = prepared / ".venv" / "bin" / "python"
    script = "".join(f"echo '{line}'\n" for line in printed)
    python.write_text(f'#!/bin/sh\ncase "$*" in *requirements*) {script};; esac\n')
    environment = {**os.environ, "PYTHON": sys.executable}

    def set_up_again() -> subprocess.CompletedProcess[str]:
        return subprocess.run([prepared / "run", "setup"], env=environment, capture_output=True, text=True, check=False)

    said = set_up_again()
    assert (said.returncode, said.stderr.splitlines()[1:]) == (0, [
        "  installing the packages of the group 'base'", "    25 packages", "    downloading large-1.tar.gz (455.3 MB)",
        "    unpacking 26 packages", "  compiling bytecode",
    ])  # fmt: skip
    (prepared / ".venv" / "ready-base").unlink()
    python.write_text(
        '#!/bin/sh\ncase "$*" in *requirements*) echo "ERROR: hashes differ:"; echo "  of x"; exit 1 ;; esac\n'
    )
    refused = set_up_again()
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[2:4] == ["ERROR: hashes differ:", "of x"]
    assert "pip could not install the requirements" in refused.stderr
    assert re.search(
        r"They come from a package registry.*\n  Free in .*checkout: [\d.]+[KMGT]?\. Repeat ./run", refused.stderr
    )


def test_a_set_up_that_cannot_make_its_environment_names_the_free_space(checkout: Path, tmp_path: Path) -> None:
    python = simulate_interpreter(tmp_path / "one", "python3.11", optimized=True)
    assert "Free there: unknown." in set_up(checkout, python.parent)  # without df
    environment = {**os.environ, "PYTHON": str(python)}
    done = subprocess.run([checkout / "run", "setup"], env=environment, capture_output=True, text=True, check=False)
    assert re.search(rf"{python} could not make .*\. Free there: [\d.]+[KMGT]?\.\n", done.stderr)


def test_each_group_of_a_set_up_ends_with_its_next_command(prepared: Path) -> None:
    for group in ("base", "docs"):
        shutil.copy(ROOT / f"requirements-{group}.lock", prepared)
        stamp = f"echo $(cksum $PWD/requirements-{group}.lock $PWD/pyproject.toml) >.venv/ready-{group}"
        subprocess.run(["sh", "-c", stamp], cwd=prepared, check=True)
        done = subprocess.run([prepared / "run", "setup", group], capture_output=True, text=True, check=True)
        assert f"the packages of the group '{group}'. Next: ./run d" in done.stdout


def test_a_set_up_begins_with_what_it_does_and_how_long_it_takes(checkout: Path, tmp_path: Path) -> None:
    python = simulate_interpreter(tmp_path / "one", "python3.11", optimized=True)
    for command, says in (("semq", "well under a minute"), ("python", "with the packages of the tests, some minutes")):
        environment = {**os.environ, "PYTHON": str(python)}
        done = subprocess.run([checkout / "run", command], env=environment, capture_output=True, text=True, check=False)
        line, *_ = done.stderr.splitlines()
        assert line == f"Preparing {checkout / '.venv'} (first start; {says} with a fair network) ..."


def test_a_command_that_waits_for_another_set_up_says_so(prepared: Path) -> None:
    ready = prepared / ".venv" / "ready-base"
    stamp = ready.read_text()
    ready.unlink()
    with (prepared / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment = {**os.environ, "PYTHON": sys.executable}
        with subprocess.Popen(
            [prepared / "run", "semq"], env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as waiting:
            assert waiting.stderr is not None
            assert waiting.stderr.readline() == f"Waiting for another ./run that prepares {prepared / '.venv'} ...\n"
            ready.write_text(stamp)
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert waiting.communicate() == ("", "")
    assert waiting.returncode == 0


@pytest.mark.parametrize(
    ("words", "example"),
    [
        ([], "./run node platform --config examples/config/platform.toml"),
        (["local"], "./run node local --config examples/config/a.toml"),
        (["virtual", "--conf"], "./run node virtual --config examples/config/server.toml"),
    ],
)
def test_a_node_without_a_configuration_is_told_the_option_and_an_example(
    prepared: Path, words: list[str], example: str
) -> None:
    done = subprocess.run([prepared / "run", "node", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    usage, hint = done.stderr.splitlines()
    assert usage == "usage: ./run node platform|local|virtual --config FILE"
    assert hint.endswith(f"for example: {example}")
    assert (ROOT / example.split()[-1]).exists()


@pytest.mark.parametrize("words", [["local", "--config", "a.toml"], ["platform", "--config=a.toml"], ["local", "-h"]])
def test_a_node_with_a_configuration_is_started(prepared: Path, words: list[str]) -> None:
    done = subprocess.run([prepared / "run", "node", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_help_lists_the_commands_also_after_a_word_that_is_none(checkout: Path) -> None:
    help_ = subprocess.run(["sh", "run", "help"], cwd=checkout, capture_output=True, text=True, check=True).stdout
    assert {"demo", "test", "semq", "node", "help"} <= {line.split()[0] for line in help_.splitlines()[2:]}
    assert "  node          node platform|local|virtual --config FILE: one service in the foreground" in help_
    done = subprocess.run([checkout / "run", "dem"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"run: no command 'dem'.\n{help_}")


def test_an_unknown_group_is_refused_before_anything_is_installed(checkout: Path) -> None:
    done = subprocess.run([checkout / "run", "setup", "nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "run: no group 'nonsense'; usage: ./run setup [base|test|spark|docs]\n"
    assert not (checkout / ".venv").exists()
