"""Nodes accept the configuration that the demo writes."""

from pathlib import Path

from semq.config import load
from semq.demo.configuration import RECEIVER, SENDER, write_configuration
from semq.installation.configuration import HUB
from spark_reconcile.settings import load as reconciliation


def test_the_institutions_have_the_address_and_the_passwords_of_the_hub(tmp_path: Path) -> None:
    places = write_configuration(tmp_path / "deep" / "down")
    settings = {name: load(place.config, {}) for name, place in places.items()}
    assert settings[HUB].nodes.keys() == {SENDER, RECEIVER}
    for name in (SENDER, RECEIVER):
        hub = settings[name].hub
        assert hub is not None
        assert hub.url.endswith(f":{places[HUB].port}")
        assert hub.password == settings[HUB].nodes[name].password
        assert settings[name].data_dir == places[name].data_dir.resolve()


def test_without_a_hub_10008_has_the_address_of_56001_and_both_extract_into_one_folder(tmp_path: Path) -> None:
    places = write_configuration(tmp_path, secure=True, direct=True, has_hub=False)
    assert places.keys() == {SENDER, RECEIVER}
    settings = {name: load(place.config, {}) for name, place in places.items()}
    assert all(one.has_no_hub for one in settings.values())
    assert settings[SENDER].direct[RECEIVER].urls == [f"amqps://127.0.0.1:{places[RECEIVER].port}"]
    assert settings[RECEIVER].direct[SENDER].urls == []
    job = reconciliation(places[RECEIVER].config)
    assert not job.hub
    assert job.extracts == settings[SENDER].extracts == settings[RECEIVER].extracts


def test_with_certificates_no_node_has_a_password_at_the_hub(tmp_path: Path) -> None:
    places = write_configuration(tmp_path, secure=True)
    settings = {name: load(place.config, {}) for name, place in places.items()}
    assert settings[HUB].amqp.tls
    assert {account.password for account in settings[HUB].nodes.values()} == {None}
    for name in (SENDER, RECEIVER):
        hub = settings[name].hub
        assert hub is not None
        assert (hub.is_tls, hub.password) == (True, None)
    assert places[HUB].url.startswith("amqps://")
    assert places[SENDER].url.startswith("amqp://")
    assert {settings[name].extract.deliver_to for name in (SENDER, RECEIVER)} == {"56001/collector"}
    assert len({settings[name].extracts for name in places}) == 3
    job = reconciliation(places[HUB].config)
    assert job.extracts == settings[HUB].extracts
    assert Path(job.trust) == settings[HUB].pki_dir / "trust.pem"
