"""Descriptions of keys, read from the source of the sections."""

from collections.abc import Iterator
from pathlib import Path

from semq.config import load
from semq.config.descriptions import descriptions_of
from semq.config.sections import NodeSection, Section
from semq.config.settings import Settings


def test_the_string_below_a_key_describes_it() -> None:
    assert descriptions_of(NodeSection)["kind"] == "local: an institution's node; platform: the hub"


def below(base: type[Section]) -> Iterator[type[Section]]:
    for section in base.__subclasses__():
        yield section
        yield from below(section)


def test_every_key_of_every_section_has_a_description() -> None:
    sections = [section for section in below(Section) if section.__name__.endswith("Section")]
    assert len(sections) > 20
    for section in sections:
        assert descriptions_of(section).keys() >= section.model_fields.keys(), section


def test_a_key_without_a_string_is_missing() -> None:
    assert "node" in Settings.model_fields
    assert "node" not in descriptions_of(Settings)


def test_loading_a_configuration_reads_no_description(tmp_path: Path) -> None:
    file = tmp_path / "semq.toml"
    file.write_text(
        '[node]\nkind = "local"\nid = "10008"\n[hub]\nurl = "amqp://127.0.0.1:17670"\npassword = "secret"\n'
    )
    descriptions_of.cache_clear()
    settings = load(file, {})
    assert descriptions_of.cache_info().currsize == 0
    assert settings.explain()
    assert descriptions_of.cache_info().currsize > 0
