"""Nodes accept the configuration that an installation writes."""

from pathlib import Path

from semq.config import load
from semq.installation.configuration import HUB, ApplicationLogin, InstallationPlan, Rows, free_ports, toml

LOGIN = ApplicationLogin("app", 'a "quoted" word')


def test_rows_are_written_as_toml_tables() -> None:
    rows: Rows = {
        "node.kind": "local",
        "amqp.port": 1,
        "node.flag": True,
        "nodes.1.password": None,
        "nodes.1.may": ["2"],
    }
    assert toml(rows) == '[node]\nkind = "local"\nflag = true\n\n[amqp]\nport = 1\n\n[nodes.1]\nmay = ["2"]\n'


def test_each_link_has_the_password_that_the_hub_knows(tmp_path: Path) -> None:
    plan = InstallationPlan({"a": "10008"}, LOGIN, absent=["77001"], local_rows={"extract.folder": "of {name}"})
    places = plan.write(tmp_path / "deep" / "down")
    settings = {name: load(place.config, {}) for name, place in places.items()}
    assert settings[HUB].nodes.keys() == {"10008", "77001"}
    hub = settings["a"].hub
    assert hub is not None
    assert hub.url.endswith(f":{places[HUB].port}")
    assert hub.password == settings[HUB].nodes["10008"].password
    assert settings["a"].data_dir == places["a"].data_dir.resolve()
    assert settings["a"].extracts.endswith("of a")
    assert settings["a"].amqp.users[LOGIN.user].password.get_secret_value() == LOGIN.password


def test_a_secure_installation_has_no_passwords_of_links(tmp_path: Path) -> None:
    places = InstallationPlan({"a": "10008"}, LOGIN, secure=True).write(tmp_path, {"a": [5]})
    hub, local = load(places[HUB].config, {}), load(places["a"].config, {})
    assert hub.amqp.tls
    assert [account.password for account in hub.nodes.values()] == [None]
    assert local.hub is not None
    assert (local.hub.url, local.hub.password) == ("amqps://127.0.0.1:5", None)
    assert places[HUB].url.startswith("amqps://")
    assert places["a"].url.startswith("amqp://")


def test_applications_find_the_authorities_of_an_instance_in_the_folder_of_its_keys(tmp_path: Path) -> None:
    places = InstallationPlan({"a": "10008"}, LOGIN, secure=True, instances=2, carrier="amqp://u:p@localhost").write(
        tmp_path
    )
    folder = load(places[f"{HUB}-2"].config, {}).tls.dir
    assert places[f"{HUB}-2"].url_at(1).endswith(f"?cafile={folder}/trust.pem")


def test_a_direct_link_has_a_dialling_and_a_listening_end(tmp_path: Path) -> None:
    local = {"hub.reconnect_s_min": 0.1}
    plan = InstallationPlan({"a": "10008", "b": "56001"}, LOGIN, secure=True, direct=("a", "b"), local_rows=local)
    places = plan.write(tmp_path)
    a, b = load(places["a"].config, {}), load(places["b"].config, {})
    assert a.direct["56001"].urls == [f"amqps://127.0.0.1:{places['b'].port}"]
    assert (a.direct["56001"].reconnect_s_min, b.direct["10008"].reconnect_s_min) == (0.1, 0.5)
    assert b.direct["10008"].urls == []
    assert (a.amqp.tls, b.amqp.tls) == (False, True)
    assert places["b"].url.startswith("amqps://")


def test_free_ports_are_all_different() -> None:
    assert len(set(free_ports(50))) == 50
    calls = [free_ports(50) for _ in range(20)]  # nothing uses them yet
    assert len({port for ports in calls for port in ports}) == 20 * 50
