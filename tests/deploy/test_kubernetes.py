"""The manifests in deploy/kubernetes agree with each other and with the product."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from semq.config import load
from semq.config.names import is_known
from semq.web.own_routes import ROUTES
from tests.deploy.programs import KUBECTL
from tests.deploy.rollouts import Rollout, may_evict

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
PASSWORD_VARIABLE = "SEMQ_AMQP__USERS__ADMIN"


def resources() -> list[dict[str, Any]]:
    """Return the resources that the kustomization names."""
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    files = [FOLDER / name for name in kustomization["resources"]]
    assert {*files, FOLDER / "kustomization.yaml"} == set(FOLDER.glob("*.yaml"))
    return [resource for file in files for resource in yaml.safe_load_all(file.read_text())]


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {resource["metadata"]["name"]: resource for resource in resources() if resource["kind"] == kind}


DEPLOYMENTS = sorted(of_kind("Deployment"))


def pod(name: str) -> dict[str, Any]:
    template: dict[str, Any] = of_kind("Deployment")[name]["spec"]["template"]
    return template


def labels_of(name: str) -> dict[str, str]:
    labels: dict[str, str] = pod(name)["metadata"]["labels"]
    return labels


def container(name: str) -> dict[str, Any]:
    (only_container,) = pod(name)["spec"]["containers"]
    return dict(only_container)


def variables(name: str) -> Iterator[tuple[str, Any]]:
    """Yield the variables of a container with their values, or the names of their secrets."""
    for variable in container(name)["env"]:
        yield variable["name"], variable.get("value") or variable["valueFrom"]["secretKeyRef"]["name"]


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_command_and_variables_of_a_container_exist(name: str) -> None:
    command, kind, option, _ = container(name)["args"]
    offered = subprocess.run([str(ROOT / "run"), "help"], capture_output=True, text=True, check=True).stdout
    assert re.search(rf"^  {command} .*\b{kind}\b", offered, re.MULTILINE)
    assert option == "--config"
    settings = [key for key, _ in variables(name) if key.startswith("SEMQ_")]
    assert all(is_known(key.removeprefix("SEMQ_").lower().split("__")) for key in settings)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_the_configuration_is_accepted_with_the_variables(name: str) -> None:
    secrets = {
        "store-1-app": "postgresql://semq:x@store-1-rw.semq:5432/semq",
        "store-2-app": "postgresql://semq:x@store-2-rw.semq:5432/semq",
        "carrier-default-user": "amqp://semq:x@carrier.semq.svc:5672/",
    }
    values = {key: secrets.get(value, value) for key, value in variables(name)}
    values = {key: value.replace("$(CARRIER_URL)", values["CARRIER_URL"]) for key, value in values.items()}
    settings = load(FOLDER / "hub.toml", values | {PASSWORD_VARIABLE: "x"})
    assert f"hub-{settings.node.semq_id}" == name
    assert settings.database.url is not None
    assert f"store-{settings.node.semq_db_id}-rw" in settings.database.url.get_secret_value()
    assert settings.cluster is not None
    assert settings.cluster.control is not None
    assert "store-1-rw" in settings.cluster.control.get_secret_value()
    ports = {port["name"]: port["containerPort"] for port in container(name)["ports"]}
    assert settings.http is not None
    assert ports == {"amqps": settings.amqp.port, "http": settings.http.port}
    mounts = {mount["mountPath"] for mount in container(name)["volumeMounts"]}
    assert {str(settings.data_dir), str(settings.pki_dir), "/etc/semq"} < mounts


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_labels_ports_and_volumes_of_the_manifests_agree(name: str) -> None:
    labels, spec = labels_of(name), pod(name)["spec"]
    assert of_kind("Deployment")[name]["spec"]["selector"]["matchLabels"] == labels
    for service in of_kind("Service").values():
        assert service["spec"]["selector"].items() <= labels.items()
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= {"amqps", "http"}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    assert {mount["name"] for each in containers for mount in each["volumeMounts"]} == set(volumes)
    assert volumes["pki"]["persistentVolumeClaim"]["claimName"] in of_kind("PersistentVolumeClaim")
    assert {each["image"] for each in containers} == {"semq"}
    stores = {value.removesuffix("-app") for key, value in variables(name) if "URL" in key or "CONTROL" in key}
    assert stores - {"carrier-default-user"} <= set(of_kind("Cluster"))
    assert set(of_kind("RabbitmqCluster")) == {"carrier"}


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_probe_asks_for_a_path_that_the_web_process_has(name: str) -> None:
    probe = container(name)["readinessProbe"]["httpGet"]
    assert probe["port"] == "http"
    assert probe["path"] in {getattr(route, "path", "") for route in ROUTES}


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_an_update_of_an_instance_completes_and_the_next_owner_is_started_before_the_old_one_ends(name: str) -> None:
    rollout = Rollout.of(of_kind("Deployment")[name])
    assert rollout.run(), rollout.pods
    assert not rollout.is_interrupted


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable"),
    [(2, 0, 1), (2, 1, 1), (2, 0, 2), (1, 1, 0)],  # a permanent standby; a new pod that must be ready first
)
def test_the_calculation_finds_updates_that_do_not_complete(replicas: int, surge: int, unavailable: int) -> None:
    assert not Rollout(replicas, surge, unavailable, ["old"] * replicas).run()


def test_hosts_can_be_drained_one_after_another_and_an_instance_is_always_left() -> None:
    (budget,) = of_kind("PodDisruptionBudget").values()
    matched = [
        name for name in DEPLOYMENTS if budget["spec"]["selector"]["matchLabels"].items() <= labels_of(name).items()
    ]
    assert matched == DEPLOYMENTS
    replicas = [of_kind("Deployment")[name]["spec"]["replicas"] for name in matched]
    assert replicas == [1, 1]
    assert may_evict(budget, [True, True], ready=True)
    assert not may_evict(budget, [False, True], ready=True)
    assert may_evict(budget, [False, True], ready=False)
    assert may_evict(budget, [False, False], ready=False)
    standby = {"spec": {"maxUnavailable": 1}}  # a budget for the pods of one store, with a permanent standby
    assert not may_evict(standby, [True, False], ready=True)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_pod_of_an_absent_host_is_replaced_within_a_minute(name: str) -> None:
    tolerations = {toleration["key"]: toleration for toleration in pod(name)["spec"]["tolerations"]}
    assert set(tolerations) == {"node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"}
    assert all(toleration["tolerationSeconds"] <= 60 for toleration in tolerations.values())
    assert all(toleration["effect"] == "NoExecute" for toleration in tolerations.values())


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_variables_of_other_services_do_not_reach_a_container(name: str) -> None:
    assert pod(name)["spec"]["enableServiceLinks"] is False


def test_the_secret_that_containers_need_is_described_where_it_is_used() -> None:
    text = (FOLDER / "kustomization.yaml").read_text()
    [(secret, key)] = re.findall(r"create secret generic (\S+) --from-literal=(\w+)=", text)
    assert key == PASSWORD_VARIABLE
    for name in DEPLOYMENTS:
        assert [source["secretRef"]["name"] for source in container(name)["envFrom"]] == [secret]


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_kubectl_renders_the_manifests_of_a_fresh_clone(tmp_path: Path) -> None:
    folder = tmp_path / "kubernetes"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("*.env"))
    done = subprocess.run([str(KUBECTL), "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rendered = list(yaml.safe_load_all(done.stdout))
    assert len(rendered) == len(resources()) + 1  # the configuration
    assert all(resource["metadata"].get("namespace", "semq") == "semq" for resource in rendered)
    (config,) = (resource["metadata"]["name"] for resource in rendered if resource["kind"] == "ConfigMap")
    for resource in rendered:
        if resource["kind"] == "Deployment":
            volumes = resource["spec"]["template"]["spec"]["volumes"]
            assert [volume["configMap"]["name"] for volume in volumes if "configMap" in volume] == [config]
