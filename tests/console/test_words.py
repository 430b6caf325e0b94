"""The Chinese texts: every text of the console has one, none is left over, and what is put in is the same."""

import re

from babel.messages.pofile import read_po

from tests.console.texts import ROOM, every, plurals

FIELDS = re.compile(r"%\(\w+\)s|\{\w+\}|`[^`]*`")


def test_every_text_is_translated_and_none_is_left_over() -> None:
    with (ROOM / "translations" / "zh.po").open("rb") as stream:
        known = {one.id: one.string for one in read_po(stream) if one.id}
    texts = {one if isinstance(one, str) else one[0]: said for one, said in known.items()}
    assert sorted(every() - texts.keys()) == []
    assert sorted(texts.keys() - every()) == []
    for text, said in texts.items():
        whole = said if isinstance(said, str) else (said or [""])[0]
        assert whole.strip(), text
        commands = sorted(FIELDS.findall(text))
        assert sorted(FIELDS.findall(whole)) == commands, text
    assert {one[0]: one[1] for one in known if not isinstance(one, str)} == plurals()
