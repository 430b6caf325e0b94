"""Passwords of accounts as they are stored."""

from semq.web.access.passwords import check_password, hash_password


def test_a_password_fits_its_own_line_only() -> None:
    kept = hash_password("pässword", b"salt")
    assert kept != hash_password("pässword", b"pepper")
    assert check_password("pässword", kept)
    assert not check_password("password", kept)
    for other in ("", "scrypt$", "md5$00$00", "scrypt$00"):
        assert not check_password("pässword", other)
