"""The configuration of folders and webhooks: paths relative to the file, and faults with their keys."""

from pathlib import Path

import pytest

from tests.test_config import HUB_CONFIG, LOCAL, faults, read


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "semq.toml"


def test_folders_are_relative_to_the_file(file: Path) -> None:
    folders = read(file, LOCAL + '[[folders]]\npath = "door"\n[[folders]]\npath = "other"\nuser = "buyer"\n').folders
    assert [folder.path for folder in folders] == [file.parent / "door", file.parent / "other"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (LOCAL + '[[folders]]\npath = "a"\n[[folders]]\npath = "a"\nreceive = false\n', "folders.1.path"),
        (LOCAL + '[[folders]]\npath = "a"\n[[folders]]\npath = "a/out/b"\nreceive = false\n', "folders.1.path"),
        (LOCAL + '[[folders]]\npath = "a/b"\n[[folders]]\npath = "x/../a"\nreceive = false\n', "folders.1.path"),
        (LOCAL + '[[folders]]\npath = "a"\n[[folders]]\npath = "b"\n', "folders.1.user"),
        (LOCAL + '[[folders]]\npaht = "a"\n', "folders.0.paht"),
        (HUB_CONFIG + '[[folders]]\npath = "a"\n', "folders"),
    ],
)
def test_faults_of_folders_are_named(file: Path, text: str, key: str) -> None:
    assert any(f" {key}:" in fault for fault in faults(file, text)), faults(file, text)


def test_a_folder_within_another_is_named_also_through_a_symbolic_link(file: Path) -> None:
    (file.parent / "a").mkdir()
    (file.parent / "link").symlink_to("a")
    text = LOCAL + '[[folders]]\npath = "a"\n[[folders]]\npath = "{path}"\nreceive = false\n'
    for path in ("link/b", file.parent / "a" / "b"):
        [fault] = faults(file, text.format(path=path))
        assert f"{file.parent}/a/b lies in {file.parent}/a" in fault
    assert len(read(file, text.format(path="ab")).folders) == 2


def test_paths_in_the_file_stay_relative_to_it_if_a_variable_sets_the_data_directory(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    hook = HOOK.format(url="https://example.org/") + 'documents = false\ntrust = "ca.pem"\n'
    settings = read(file, f'{LOCAL}[[folders]]\npath = "door"\n{hook}', SEMQ_NODE__DATA_DIR="data")
    assert settings.data_dir == Path("/data")
    assert [folder.path for folder in settings.folders] == [file.parent / "door"]
    assert [webhook.trust for webhook in settings.webhooks] == [file.parent / "ca.pem"]


HOOK = '[[webhooks]]\nname = "erp"\nurl = "{url}"\nsecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"\n'


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (LOCAL + HOOK.format(url="ftp://example.org/"), "webhooks.0.url"),
        (LOCAL + HOOK.format(url="https://user:word@example.org/"), "webhooks.0.url"),
        (LOCAL + HOOK.format(url="http://example.org/"), "webhooks.0.url"),
        (LOCAL + HOOK.format(url="https://exämple.org/"), "webhooks.0.url"),
        (LOCAL + HOOK.format(url="https://example..org/"), "webhooks.0.url"),
        (LOCAL + HOOK.format(url="https://example.org/a b"), "webhooks.0.url"),
        (LOCAL + HOOK.format(url="https://example.org/").replace("whsec_", ""), "webhooks.0.secret"),
        (LOCAL + 2 * HOOK.format(url="https://example.org/"), "webhooks.1.name"),
        (LOCAL + '[[folders]]\npath = "a"\n' + HOOK.format(url="https://example.org/"), "webhooks.0.user"),
        (HUB_CONFIG + HOOK.format(url="https://example.org/"), "webhooks"),
    ],
)
def test_faults_of_webhooks_are_named(file: Path, text: str, key: str) -> None:
    assert any(f" {key}:" in fault for fault in faults(file, text)), faults(file, text)


def test_a_webhook_on_this_machine_needs_no_tls(file: Path) -> None:
    [webhook] = read(file, LOCAL + HOOK.format(url="http://127.0.0.1:8080/hook") + 'trust = "ca.pem"\n').webhooks
    assert webhook.trust == file.parent / "ca.pem"


def test_settings_of_webhooks_are_shown_with_their_origin_and_without_the_secret(file: Path) -> None:
    rows = {row.key: row for row in read(file, LOCAL + HOOK.format(url="http://[::1]/")).explain()}
    assert (rows["webhooks.0.url"].value, rows["webhooks.0.url"].origin) == ("http://[::1]/", str(file))
    assert (rows["webhooks.0.timeout_s"].value, rows["webhooks.0.timeout_s"].origin) == ("15.0", "default")
    assert rows["webhooks.0.secret"].value == "********"
    assert all(row.help for row in rows.values())
    assert "MfKQ9r8" not in str(rows)
