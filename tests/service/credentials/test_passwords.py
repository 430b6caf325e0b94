"""Passwords of users: their hashes, as they are stored."""

import pytest

from semq.service.credentials.passwords import LENGTH_MAX, LENGTH_MIN, check_password, hash_password, is_right, new_hash
from semq.service.errors import BadArguments


def test_only_the_right_password_matches_a_stored_hash() -> None:
    stored = hash_password("pässword", b"salt")
    assert stored != hash_password("pässword", b"pepper")
    assert check_password("pässword", stored)
    assert not check_password("password", stored)
    for invalid in ("", "scrypt$", "md5$00$00", "scrypt$00", "scrypt$zz$00"):
        assert not check_password("pässword", invalid)
    assert not check_password("\ud800", stored)


@pytest.mark.parametrize("length", [LENGTH_MIN - 1, LENGTH_MAX + 1])
async def test_a_password_of_a_length_that_is_not_permitted_is_refused(length: int) -> None:
    with pytest.raises(BadArguments):
        await new_hash("x" * length)


async def test_a_known_user_needs_the_right_password_and_an_unknown_one_has_none() -> None:
    stored = await new_hash("x" * LENGTH_MIN)
    assert await is_right("x" * LENGTH_MIN, stored)
    assert not await is_right("y" * LENGTH_MIN, stored)
    assert not await is_right("x" * LENGTH_MIN, None)
