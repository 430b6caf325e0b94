"""Passwords of users: their hashes, as they are stored."""

from semq.web.access.passwords import check_password, hash_password


def test_only_the_right_password_matches_a_stored_hash() -> None:
    stored = hash_password("pässword", b"salt")
    assert stored != hash_password("pässword", b"pepper")
    assert check_password("pässword", stored)
    assert not check_password("password", stored)
    for invalid in ("", "scrypt$", "md5$00$00", "scrypt$00", "scrypt$zz$00"):
        assert not check_password("pässword", invalid)
    assert not check_password("\ud800", stored)
