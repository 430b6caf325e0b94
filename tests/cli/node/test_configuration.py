"""``semq config``: all faults are in one report, and no secret is in the output."""

from pathlib import Path

from semq.config import load
from tests.cli.command import semq

EXAMPLES = Path(__file__).parents[3] / "examples" / "config"


def test_the_examples_have_no_faults() -> None:
    for file in sorted(EXAMPLES.glob("*.toml")):
        assert semq("config", "check", "--config", str(file), "--json").data["ok"]
        assert "no faults" in semq("config", "check", "--config", str(file)).out


def test_the_local_nodes_of_the_examples_can_log_in_to_the_hub_of_the_examples() -> None:
    hub = load(EXAMPLES / "platform.toml", {})
    files: list[tuple[Path, str | None]] = [(EXAMPLES / "a.toml", None), (EXAMPLES / "b.toml", None)]
    files += [(EXAMPLES / "server.toml", institution) for institution in ("10008", "56001")]
    for file, institution in files:
        local = load(file, {}, institution)
        assert local.hub is not None
        assert local.hub.url == f"amqp://127.0.0.1:{hub.amqp.port}"
        assert local.hub.password == hub.nodes[local.address.id].password
        assert local.data_dir.parent == hub.data_dir.parent or local.data_dir.parent.parent == hub.data_dir.parent


def test_a_fault_of_one_institution_among_several_is_named(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    good = (EXAMPLES / "server.toml").read_text()
    file.write_text(good + '\n[institutions."10099".hub]\nurl = "no address"\n')
    semq("config", "check", "--config", str(file)).fails(78, "SEMQ-2011", "10099")
    file.write_text(good)
    several = semq("config", "check", "--config", str(file), "--json").data["institutions"]
    assert len(several) > 1
    assert semq("config", "check", "--config", str(file), "--json", "--institution", several[0]["id"]).data["ok"]


def test_the_file_may_be_named_by_the_environment() -> None:
    file = str(EXAMPLES / "a.toml")
    assert semq("config", "check", "--json", SEMQ_CONFIG=file).data["ok"]
    assert "hub.url" in semq("config", "show", SEMQ_CONFIG=file).out


def test_every_fault_is_named(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('[node]\nkind = "local"\nid = "1"\n[hub]\nurl = "x"\npasword = "hidden"\n')
    result = semq("config", "check", "--config", str(file))
    result.fails(78, "SEMQ-2011")
    assert "did you mean hub.password" in result.err
    assert "hub.url" in result.err
    assert "hidden" not in result.err


def test_an_unreadable_file_ends_the_check_with_78(tmp_path: Path) -> None:
    semq("config", "check", "--config", str(tmp_path / "none.toml")).fails(78, "SEMQ-2010")
    (tmp_path / "bad.toml").write_bytes(b"\xff = [")
    semq("config", "check", "--config", str(tmp_path / "bad.toml")).fails(78, "SEMQ-2010")


def test_settings_are_shown_with_their_origin_and_without_secrets() -> None:
    file = str(EXAMPLES / "a.toml")
    rows = {row["key"]: row for row in semq("config", "show", "--config", file, "--json", SEMQ_LOG__LEVEL="debug").data}
    assert (rows["log.level"]["value"], rows["log.level"]["origin"]) == ("debug", "SEMQ_LOG__LEVEL")
    assert rows["hub.password"]["value"] == "********"
    assert rows["protocol.inquiry_s"]["origin"] == "default"
    assert "log.level" in semq("config", "show", "--config", file, "--origin").out
    assert "protocol.window" not in semq("config", "show", "--config", file).out
    assert "protocol.window" in semq("config", "show", "--config", file, "--all").out


def test_users_are_shown_with_their_permissions_and_without_passwords(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    users = 'erp = "hidden"\n[amqp.users.web]\npassword = "hidden"\npermissions."/".read = "^semq.inbox$"\n'
    file.write_text(f'[node]\nkind = "platform"\nid = "hub"\n[amqp.users]\n{users}')
    result = semq("config", "show", "--config", str(file), "--json", SEMQ_AMQP__USERS__ERP="hidden-too")
    rows = {row["key"]: (row["value"], row["origin"]) for row in result.data}
    assert rows["amqp.users.erp.password"] == ("********", "SEMQ_AMQP__USERS__ERP")
    assert rows["amqp.users.web.password"] == ("********", str(file))
    assert rows["amqp.users.web.permissions./.read"] == ("^semq.inbox$", str(file))
    assert "hidden" not in result.out + semq("config", "show", "--config", str(file), "--origin").out
    file.write_text(file.read_text().replace("^semq.inbox$", "("))
    semq("config", "check", "--config", str(file)).fails(78, "SEMQ-2011")
