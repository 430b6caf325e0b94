"""Keys on disk: permissions, passphrases, and refusals with a reason."""

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from semq.pki.errors import KeyRefused
from semq.pki.keys import SecretSource, is_accepted, key_id, new_key, read_key, read_private, write_key

SECRET = b"correct horse battery staple"


@pytest.mark.parametrize("kind", ["ec", "rsa"])
@pytest.mark.parametrize("passphrase", [None, SECRET])
def test_a_key_is_read_as_it_was_written(tmp_path: Path, kind: str, passphrase: bytes | None) -> None:
    key = new_key(kind)
    path = tmp_path / "some" / "key"
    write_key(path, key, passphrase)
    assert path.stat().st_mode & 0o777 == 0o600
    assert key_id(read_key(path, passphrase)) == key_id(key) == key_id(key.public_key())
    assert len(key_id(key)) == 32
    assert (b"ENCRYPTED" in path.read_bytes()) is (passphrase is not None)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o601])
def test_a_key_that_others_may_access_is_refused(tmp_path: Path, mode: int) -> None:
    write_key(tmp_path / "key", new_key(), None)
    (tmp_path / "key").chmod(mode)
    with pytest.raises(KeyRefused, match="Users other than its owner") as caught:
        read_key(tmp_path / "key", None)
    assert caught.value.facts["mode"] == oct(mode)


def test_a_key_that_others_may_read_is_refused_also_behind_a_link(tmp_path: Path) -> None:
    write_key(tmp_path / "key", new_key(), None)
    (tmp_path / "key").chmod(0o644)
    (tmp_path / "link").symlink_to(tmp_path / "key")
    with pytest.raises(KeyRefused, match="Users other than its owner"):
        read_key(tmp_path / "link", None)


def test_a_key_of_another_user_is_refused_and_the_remedy_names_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_key(tmp_path / "key", new_key(), None)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:  # keys of root are accepted
        owner = 12345
        os.chown(tmp_path / "key", owner, -1)
    with pytest.raises(KeyRefused, match="another user") as caught:
        read_private(tmp_path / "key")
    assert caught.value.facts["uid"] == owner
    assert "as the user who owns the file" in caught.value.remedy


@pytest.mark.parametrize("passphrase", [None, b"wrong"])
def test_a_missing_or_wrong_passphrase_is_refused_and_no_passphrase_is_shown(
    tmp_path: Path, passphrase: bytes | None
) -> None:
    write_key(tmp_path / "key", new_key(), SECRET)
    with pytest.raises(KeyRefused, match="passphrase is missing or wrong") as caught:
        read_key(tmp_path / "key", passphrase)
    assert "wrong'" not in str(caught.value)  # a fact would end in a quote; the text itself has the word
    assert SECRET.decode() not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("data", [b"", b"x" * 100, b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_file_without_a_private_key_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(KeyRefused, match="has no private key"):
        read_key(path, None)


@pytest.mark.parametrize("key", [ed25519.Ed25519PrivateKey.generate(), rsa.generate_private_key(65537, 1024)])
def test_keys_of_other_kinds_and_sizes_are_refused(tmp_path: Path, key: rsa.RSAPrivateKey) -> None:
    write_key(tmp_path / "key", key, None)
    with pytest.raises(KeyRefused, match="kind or size"):
        read_key(tmp_path / "key", None)


def test_public_keys_of_accepted_kinds_and_sizes_are_recognised() -> None:
    assert is_accepted(ec.generate_private_key(ec.SECP384R1()).public_key())
    assert not is_accepted(ec.generate_private_key(ec.SECP521R1()).public_key())
    assert not is_accepted("a key")


def test_a_missing_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyRefused, match="cannot be read"):
        read_private(tmp_path / "key")


def test_a_named_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key", 0o600)
    with pytest.raises(KeyRefused, match="not a regular file"):
        read_private(tmp_path / "key")


def test_the_passphrase_comes_from_the_configured_source(tmp_path: Path) -> None:
    file = tmp_path / "passphrase"
    file.write_bytes(SECRET + b"\nmore\n")
    file.chmod(0o600)
    assert SecretSource().read({}) is None
    assert SecretSource(file=file).read({}) == SECRET
    assert SecretSource(credential="passphrase").read({"CREDENTIALS_DIRECTORY": str(tmp_path)}) == SECRET
    assert SecretSource(variable="KEY_PASS").read({"KEY_PASS": SECRET.decode()}) == SECRET
    file.chmod(0o644)
    with pytest.raises(KeyRefused, match="Users other than its owner"):
        SecretSource(file=file).read({})


@pytest.mark.parametrize(
    "source", [SecretSource(credential="x"), SecretSource(variable="X"), SecretSource(file=Path("nil"))]
)
def test_a_configured_passphrase_must_exist(source: SecretSource) -> None:
    with pytest.raises(KeyRefused) as caught:
        source.read({})
    assert "tls.passphrase_" in caught.value.remedy  # the remedy of key files would ask for PKCS#8


def test_an_empty_passphrase_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "passphrase").write_bytes(b"\n")
    (tmp_path / "passphrase").chmod(0o600)
    with pytest.raises(KeyRefused, match="empty"):
        SecretSource(file=tmp_path / "passphrase").read({})


def test_a_key_in_clear_is_read_although_a_passphrase_is_configured(tmp_path: Path) -> None:
    key = new_key()
    write_key(tmp_path / "key", key, None)
    assert key_id(read_key(tmp_path / "key", SECRET)) == key_id(key)
