"""``semq definitions``: export, comparison and import of a file."""

import json
from pathlib import Path

from tests.app.network import Network
from tests.cli.command import semq

NAMED = '[nodes."10008"]\nname = "Lindwurm Trading"  # as in the register\n'


def test_a_file_is_compared_imported_and_exported(network: Network, tmp_path: Path) -> None:
    at_hub = ("--node", network.hub.url)
    before = semq("definitions", "export", *at_hub, "--json").data
    file = tmp_path / "definitions.toml"
    file.write_text(NAMED)
    compared = semq("definitions", "diff", str(file), *at_hub)
    assert (compared.status, compared.err) == (1, "")
    imported = semq("definitions", "import", str(file), "--expect", str(before["version"]), *at_hub, "--json").data
    assert imported["version"] == before["version"] + 1
    assert semq("definitions", "export", *at_hub).out == NAMED
    assert semq("definitions", "diff", str(file), *at_hub).status == 0
    semq("definitions", "import", str(file), "--expect", "0", *at_hub).fails(1, "SEMQ-1261")
    file.write_text("[[agreements]]\n")
    semq("definitions", "import", str(file), *at_hub).fails(1, "SEMQ-1260")
    semq("definitions", "diff", str(tmp_path / "none"), *at_hub).fails(1, "SEMQ-2203")


def test_a_file_with_the_text_in_force_makes_no_new_version(network: Network, tmp_path: Path) -> None:
    """A file that differs only in comments makes a version, because the text is kept as it was imported."""
    at_hub = ("--node", network.hub.url)
    file = tmp_path / "definitions.toml"
    file.write_text(NAMED)
    semq("definitions", "import", str(file), *at_hub)
    before = semq("definitions", "export", *at_hub, "--json").data
    again = semq("definitions", "import", str(file), *at_hub)
    assert (again.status, again.err) == (0, "")
    assert again.out == f"version {before['version']} is in force already, with this text\n"
    expected = str(before["version"])
    result = semq("definitions", "import", str(file), "--expect", expected, "--json", *at_hub).data
    assert result == {"version": before["version"], "changes": []}
    semq("definitions", "import", str(file), "--expect", "0", *at_hub).fails(1, "SEMQ-1261")
    assert semq("definitions", "export", *at_hub, "--json").data == before
    file.write_text(NAMED + "# a comment\n")
    assert semq("definitions", "import", str(file), *at_hub, "--json").data["version"] == before["version"] + 1


def test_the_example_of_the_manual_stops_no_pair_of_the_examples(network: Network, tmp_path: Path) -> None:
    """It can be imported as it is printed."""
    manual = (Path(__file__).parents[3] / "docs" / "operate" / "institutions.md").read_text("utf-8")
    file = tmp_path / "definitions.toml"
    file.write_text(manual.partition("\n## Agreements\n")[2].partition("```toml\n")[2].partition("```")[0])
    compared = semq("definitions", "diff", str(file), "--node", network.hub.url, "--json")
    answer = json.loads(compared.out)
    assert not {"10008 -> 56001", "56001 -> 10008"} & {
        *answer["stops"]
    }  # the hub of this test has other institutions, too
    assert "+ node 10009" in answer["changes"]


def test_an_import_that_stops_pairs_needs_yes(network: Network, tmp_path: Path) -> None:
    at_hub = ("--node", network.hub.url)
    before = semq("definitions", "export", *at_hub, "--json").data
    file = tmp_path / "definitions.toml"
    file.write_text('[[agreements]]\nfrom = ["10008"]\nto = ["56001"]\n')
    compared = semq("definitions", "diff", str(file), *at_hub, "--json")
    assert "56001 -> 10008" in compared.out
    refused = semq("definitions", "import", str(file), *at_hub)
    assert (refused.status, refused.out) == (1, "")
    assert "semq: SEMQ-2217 " in refused.err.splitlines()[-1]
    assert "!   56001 -> 10008" in refused.err
    assert semq("definitions", "export", *at_hub, "--json").data == before
    try:
        done = semq("definitions", "import", str(file), "--yes", *at_hub)
        assert done.status == 0
        assert "!   56001 -> 10008" in done.err
        file.write_text(file.read_text() + 'types = ["order"]\n')
        refused = semq("definitions", "import", str(file), *at_hub)
        refused_lines = refused.err.splitlines()
        assert refused_lines[:-1] == [
            "! 1 pair of institutions could no longer send, or not the types in brackets:", "!   10008 -> 56001 (*)",
        ]  # fmt: skip
        assert "semq: SEMQ-2217 " in refused_lines[-1]
    finally:
        file.write_text(before["document"])
        assert semq("definitions", "import", str(file), *at_hub).status == 0
