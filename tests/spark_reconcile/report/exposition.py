"""A strict reader of the part of Prometheus's text format that the report uses: counters and gauges."""

import re

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE = re.compile(rf"({_NAME.pattern})(?:\{{({_LABEL}(?:,{_LABEL})*)\}})? (\S+)")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]Inf|NaN")
_TYPES = {"counter", "gauge"}

Samples = dict[tuple[str, str], float]


def read(text: str) -> tuple[dict[str, str], Samples]:
    """Return the type of each family, and all samples by name and labels. Raises AssertionError."""
    assert text.endswith("\n")
    assert "\r" not in text
    types: dict[str, str] = {}
    helped: list[str] = []
    samples: Samples = {}
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            assert _NAME.fullmatch(name), line
            assert words, f"no words: {line}"
            assert name not in helped, f"twice: {line}"
            helped.append(name)
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            assert kind in _TYPES, line
            assert helped[-1:] == [name], f"TYPE does not follow HELP: {line}"
            assert name not in types, f"twice: {line}"
            types[name] = kind
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, f"no sample: {line}"
            name, labels, value = match[1], match[2] or "", match[3]
            assert list(types)[-1:] == [name], f"not below its TYPE: {line}"
            assert (name, labels) not in samples, f"twice: {line}"
            assert _NUMBER.fullmatch(value), f"no number: {line}"
            samples[name, labels] = float(value)
    assert set(types) == set(helped) == {name for name, _ in samples}
    return types, samples
