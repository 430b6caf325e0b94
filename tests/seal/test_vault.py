"""Bodies at rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semq.seal.errors import VaultLocked
from semq.seal.vault import CACHED_MAX, Vault

MASTER = b"a master key of some length"


@given(st.binary(max_size=100), st.binary(max_size=20))
def test_a_locked_body_opens_after_a_restart(plain: bytes, context: bytes) -> None:
    earlier, later = Vault(MASTER, bytes(32), bytes), Vault(MASTER, bytes([1] * 32), bytes)
    locked = earlier.lock(plain, context)
    assert earlier.is_locked(locked)
    assert later.is_locked(locked)
    assert locked != earlier.lock(plain, context)
    assert earlier.unlock(locked, context) == later.unlock(locked, context) == later.unlock(locked, context) == plain


@pytest.mark.parametrize(
    ("master", "context", "cut"),
    [(b"another master key of it", b"row 1", 0), (MASTER, b"row 2", 0), (MASTER, b"row 1", 1)],
)
def test_another_key_another_row_and_altered_bytes_are_refused(master: bytes, context: bytes, cut: int) -> None:
    locked = Vault(MASTER, bytes(32), bytes).lock(b"plain", b"row 1")
    with pytest.raises(VaultLocked):
        Vault(master, bytes([1] * 32), bytes).unlock(locked[: len(locked) - cut], context)


def test_only_bytes_locked_with_this_master_key_count_as_locked() -> None:
    vault = Vault(MASTER, bytes(32), bytes)
    assert not vault.is_locked(b"plain")
    assert not vault.is_locked(b"")
    assert not vault.is_locked(Vault(b"another master key of it", bytes(32), bytes).lock(b"plain", b""))


def test_too_short_bytes_and_master_keys_are_refused() -> None:
    with pytest.raises(VaultLocked):
        Vault(MASTER, bytes(32), bytes).unlock(b"short", b"")
    with pytest.raises(VaultLocked):
        Vault(b"short", bytes(32), bytes)


def test_the_cache_of_keys_of_other_processes_is_bounded() -> None:
    vault = Vault(MASTER, bytes(32), bytes)
    for number in range(1, CACHED_MAX + 3):
        other_process = Vault(MASTER, number.to_bytes(32, "big"), bytes)
        assert vault.unlock(other_process.lock(b"x", b""), b"") == b"x"
    assert len(vault._ciphers) == CACHED_MAX
