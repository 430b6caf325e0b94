"""The [reconcile] table: defaults, additions, and an error for each invalid value."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from spark_reconcile.errors import BadSettings
from spark_reconcile.settings import DEFAULT_LIMITS, Limit, ReconcileSettings, from_table, load


def test_a_table_adds_to_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "semq.toml"
    file.write_text(
        '[reconcile]\nzone = "Asia/Shanghai"\ncutoff = "18:00"\nrequired = ["1.10008"]\n'
        "[reconcile.thresholds]\nSOURCE_MISSING = { max_count = 0 }\n"
        '[reconcile.pair_thresholds."1.a>1.b"]\nWAITING_OFFLINE = { max_age_s = 86400 }\n'
        "[node]\nname = 'not ours'\n"
    )
    settings = load(file)
    assert settings.zone == "Asia/Shanghai"
    assert settings.required == ("1.10008",)
    assert settings.limits == {**DEFAULT_LIMITS, "SOURCE_MISSING": Limit(max_count=0)}
    assert settings.pair_thresholds["1.a>1.b"]["WAITING_OFFLINE"].max_age_s == 86400


def test_business_dates_are_those_of_the_extracts_unless_stated(tmp_path: Path) -> None:
    extract_table = '[extract]\nzone = "Asia/Shanghai"\ncutoff = "18:00"\nat = "00:30"\n'
    file = tmp_path / "node.toml"
    for text, zone, cutoff in (
        (extract_table, "Asia/Shanghai", "18:00"),
        (f'{extract_table}[reconcile]\ncutoff = "04:00"\n', "Asia/Shanghai", "04:00"),
    ):
        file.write_text(text)
        assert (load(file).zone, load(file).cutoff) == (zone, cutoff)


def test_without_a_file_or_table_the_defaults_hold(tmp_path: Path) -> None:
    assert load(None) == ReconcileSettings()
    (tmp_path / "empty.toml").write_text("")
    folders = {"extracts": str(tmp_path / "var/extracts"), "reports": str(tmp_path / "var/reconcile")}
    assert load(tmp_path / "empty.toml") == replace(ReconcileSettings(), **folders)


def test_folders_are_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "semq.toml"
    file.write_text('[reconcile]\nextracts = "s3://bucket/extracts"\ntrust = "authorities.pem"\n')
    settings = load(file)
    assert settings.extracts == "s3://bucket/extracts"
    assert settings.reports == str(tmp_path / "var" / "reconcile")
    assert settings.trust == str(tmp_path / "authorities.pem")


@pytest.mark.parametrize(
    "table",
    [
        {"zoen": "UTC"},
        {"zone": "Mars/Olympus"},
        {"cutoff": 18},
        {"in_flight_s": -1},
        {"days_before": 10**10},
        {"carry_days": 10**17},
        {"plausible_low": float("nan")},
        {"thresholds": {"MATCHED": {"max_rate": float("nan")}}},
        {"thresholds": {"MISSING": {"max_count": 0}}},
        {"thresholds": {"MATCHED": {"max": 0}}},
        {"pair_thresholds": {"1.a-1.b": {"MATCHED": {"max_count": 0}}}},
    ],
)
def test_invalid_settings_are_refused(table: dict[str, object]) -> None:
    with pytest.raises(BadSettings):
        from_table(table)


@pytest.mark.parametrize("content", [b"[reconcile", b"\xff\xfe", b"reconcile = 3"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "semq.toml"
    file.write_bytes(content)
    with pytest.raises(BadSettings):
        load(file)
    with pytest.raises(BadSettings):
        load(tmp_path / "not-there.toml")
