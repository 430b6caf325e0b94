"""Errors: the side at fault, and codes."""

from collections.abc import Iterator

import pytest

from semq.errors import BadInput, ProtocolViolation, SemqError
from semq.umx_t import errors


def classes() -> Iterator[type[SemqError]]:
    for member in vars(errors).values():
        if isinstance(member, type) and issubclass(member, SemqError) and member.__module__ == errors.__name__:
            yield member


CLASSES = list(classes())


def test_codes_are_unique_and_in_range() -> None:
    codes = [c.code for c in CLASSES]
    assert len(set(codes)) == len(codes) == 13
    assert all(code.startswith("SEMQ-11") for code in codes)


@pytest.mark.parametrize("error", CLASSES, ids=lambda c: str(c.__name__))
def test_every_error_names_its_party_and_a_remedy(error: type[SemqError]) -> None:
    assert issubclass(error, BadInput) != issubclass(error, ProtocolViolation)
    advice = error(fact=1).advice()
    assert error.code in advice
    assert "fact=1" in advice
    assert advice.endswith(error.remedy)
    assert str(error.__doc__).splitlines()[0] in advice
