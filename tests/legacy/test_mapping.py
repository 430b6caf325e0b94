"""Mapping files change only the settings that they contain; wrong files are refused."""

from pathlib import Path

import pytest

from semq.legacy.errors import BadMapping
from semq.legacy.mapping import OUTBOUND, read_mapping


def mapping_file(folder: Path, text: str) -> Path:
    file = folder / "mapping.toml"
    file.write_text(text)
    return file


def test_the_default_mapping_has_all_tables() -> None:
    mapping = read_mapping(None)
    assert [table.kind for table in mapping.tables] == ["tb_0030", "tb_0031", "tb_0032"]
    assert mapping.tables[1].status["1"] == mapping.tables[1].status["SS_SENT"] == "SS_SENT"


def test_a_mapping_file_changes_the_named_values_only(tmp_path: Path) -> None:
    text = """
        encoding = "base64"
        [tb_0031]
        table = "old.outbox"
        columns = {status = "state"}
        status = {new = "SS_INIT"}
    """
    mapping = read_mapping(mapping_file(tmp_path, text))
    [table] = [table for table in mapping.tables if table.kind == OUTBOUND]
    assert (mapping.encoding, table.name, table.columns["status"], table.columns["target"]) == (
        "base64", "old.outbox", "state", "target"
    )  # fmt: skip
    assert (table.status["new"], table.status["0"]) == ("SS_INIT", "SS_INIT")


@pytest.mark.parametrize(
    "text",
    [
        "x = 1", "encoding = 'rot13'", "tb_0031 = 3", "[tb_0031]\ntable = 3", "[tb_0031.columns]\nweight = 'x'",
        "[tb_0031.columns]\nstatus = 3", "[tb_0031.status]\n7 = 'SS_GONE'", "[tb_0031]\ncolumns = 3", "not TOML",
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadMapping):
        read_mapping(mapping_file(tmp_path, text))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadMapping):
        read_mapping(tmp_path / "none.toml")
