"""The command line of the demo: defaults, and options that cannot be combined."""

from pathlib import Path

import pytest

from semq.demo.__main__ import read_options
from semq.demo.display import SAMPLES


def test_without_options_the_samples_are_sent() -> None:
    options = read_options([])
    assert (options.documents, options.count, options.keep, options.json) == (SAMPLES, None, False, False)
    assert SAMPLES.is_dir()


def test_a_data_dir_is_kept(tmp_path: Path) -> None:
    assert read_options(["--data-dir", str(tmp_path)]).keep
    assert read_options(["--keep"]).keep


@pytest.mark.parametrize(
    "options",
    [
        "--documents /nowhere",
        "--count 0",
        "--count x",
        "--nope",
        "--cluster --stay",
        "--no-hub --inject",
        "--cluster --no-hub",
    ],
)
def test_a_wrong_command_line_ends_with_status_2(options: str) -> None:
    with pytest.raises(SystemExit) as caught:
        read_options(options.split())
    assert caught.value.code == 2
