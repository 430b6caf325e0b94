"""Manifests: read as written, and refused with impossible contents."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reconcile.errors import BadExtract
from spark_reconcile.extracts.manifest import MANIFEST_MAX, ExtractPart, Manifest, Signature, canonical, read_manifest

MIDNIGHT, HOUR = 1_795_132_800_000, 3_600_000
GOOD = Manifest(
    node="1.10008", business_date="2026-11-20", zone="UTC", cutoff="00:00", window_start=MIDNIGHT,
    window_end=MIDNIGHT + 24 * HOUR, watermark=MIDNIGHT + 24 * HOUR, rows=3, files=(ExtractPart("part-00000-ab.parquet", 3, 10, "0" * 64),), created_at="now",
)  # fmt: skip


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert read_manifest(GOOD.encode()) == GOOD
    assert GOOD.source == "1.10008.1.1"
    assert read_manifest(json.dumps({**msgspec.to_builtins(GOOD), "newer": [1]}).encode()) == GOOD


def test_the_signature_covers_all_fields_except_itself_and_the_time_of_creation() -> None:
    signed = msgspec.structs.replace(GOOD, signature=Signature("k", "ed25519", "xyz"), created_at="later")
    assert signed.signed_bytes() == GOOD.signed_bytes()
    assert msgspec.structs.replace(GOOD, watermark=MIDNIGHT).signed_bytes() != GOOD.signed_bytes()
    assert read_manifest(signed.encode()) == signed


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("node", "10008"), ("node", "1.a/../b"), ("store", "1"), ("store", "../1"), ("role", "boss"), ("role", "platform"),
        ("node", "2.hub"), ("business_date", "9999-12-31"),
        ("business_date", "today"), ("window_end", MIDNIGHT), ("window_end", MIDNIGHT + 27 * HOUR), ("window_start", 0),
        ("business_date", "2026-11-18"), ("clock_skew_ms", 2**60), ("clock_skew_ms", -(2**60)),
        ("watermark", MIDNIGHT + 25 * HOUR), ("watermark", MIDNIGHT - 1), ("rows", 4), ("rows", -1), ("rows", "3"),
        ("files", []), ("files", 7), ("node", None),
        ("files", [{"name": "../part-1.parquet", "rows": 3, "bytes": 10, "sha256": "0" * 64}]),
        ("files", [{"name": "part-1.parquet", "rows": 3, "bytes": 10, "sha256": "0"}]),
        ("files", [{"name": "part-1.parquet", "rows": 3, "bytes": -1, "sha256": "0" * 64}]),
        ("files", [{"name": "part-1.parquet", "rows": 3, "bytes": 2**63, "sha256": "0" * 64}]),
        ("files", [{"name": "part-1.parquet", "rows": -1, "bytes": 10, "sha256": "0" * 64},
                   {"name": "part-2.parquet", "rows": 4, "bytes": 10, "sha256": "0" * 64}]),
        ("files", [{"name": "part-1.parquet", "rows": 1, "bytes": 10, "sha256": "0" * 64},
                   {"name": "part-1.parquet", "rows": 2, "bytes": 10, "sha256": "0" * 64}]),
    ],
)  # fmt: skip
def test_a_manifest_with_an_impossible_value_is_refused(field: str, value: object) -> None:
    with pytest.raises(BadExtract) as caught:
        read_manifest(json.dumps({**msgspec.to_builtins(GOOD), field: value}).encode())
    assert caught.value.facts["state"] == "MANIFEST_WRONG"


@pytest.mark.parametrize("version", [0, 2, "1", None, [1]])
def test_an_unknown_schema_version_is_refused_with_a_state_of_its_own(version: object) -> None:
    with pytest.raises(BadExtract) as caught:
        read_manifest(json.dumps({**msgspec.to_builtins(GOOD), "schema_version": version}).encode())
    assert caught.value.facts["state"] == "UNKNOWN_SCHEMA"


@given(st.one_of(st.binary(max_size=200), st.just(b"[" * 100_000), st.just(b" " * (MANIFEST_MAX + 1))))
def test_bytes_that_are_no_manifest_are_refused(content: bytes) -> None:
    with pytest.raises(BadExtract):
        read_manifest(content)


def test_equal_values_give_equal_bytes() -> None:
    assert canonical({"b": 1, "a": {"d": 2, "c": 3}}) == canonical({"a": {"c": 3, "d": 2}, "b": 1})
