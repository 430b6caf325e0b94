"""The engine's settings agree with the configuration and with the table in PROTOCOL.md section 13."""

from pathlib import Path

from msgspec.structs import asdict

from semq.config.sections import ProtocolSection
from semq.engine.settings import DEFAULTS

ROOT = Path(__file__).parents[2]
# Settings of section ``protocol`` that the node gives to its links, doors and views, not to the engine.
NOT_OF_THE_ENGINE = {"credit_bytes", "overdue_s", "pieces_from_bytes"}


def test_section_protocol_has_settings_of_the_engine_with_their_defaults() -> None:
    """``Node.engine_settings`` gives the engine every setting that the section and the engine both have."""
    section, engine = ProtocolSection().model_dump(), asdict(DEFAULTS)
    assert section.keys() - engine.keys() == NOT_OF_THE_ENGINE
    assert {name: value for name, value in section.items() if name in engine and value != engine[name]} == {}


def test_the_table_of_the_protocol_has_the_defaults() -> None:
    rows = {
        "T": f"{DEFAULTS.inquiry_s:g} s | first interval of inquiries; doubled each time, "
        f"up to {DEFAULTS.inquiry_s_max / 60:g} min ({DEFAULTS.inquiry_custody_s_max / 3600:g} h for rows in SS_ACK)",
        "spread": f"{DEFAULTS.reconnect_spread_s:g} s |",
        "inquiry budget": f"{DEFAULTS.ask_rows:,} rows every {DEFAULTS.ask_pause_s:g} s per link | "
        f"of these, {DEFAULTS.ask_custody_per_s:g} rows/s",
        "packet": f"{DEFAULTS.packet_records} records ",
        "Ack-Fwd delay": f"{DEFAULTS.forward_note_s:g} s |",
        "W": f"{DEFAULTS.credit_messages:,} messages or {ProtocolSection().credit_bytes >> 20} MiB |",
        "flight": f"{DEFAULTS.flight:,} messages |",
        "WINDOW": f"{DEFAULTS.window:,} positions |",
        "T_cust": f"{DEFAULTS.custody_silence_s:g} s |",
        "cleanup": f"{DEFAULTS.cleanup_s:g} s |",
    }
    text = (ROOT / "PROTOCOL.md").read_text("utf-8")
    assert [name for name, begin in rows.items() if f"\n| {name} | {begin}" not in text] == []
