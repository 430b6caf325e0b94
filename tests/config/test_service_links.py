"""Variables of Kubernetes do not keep a node from its start; misspelt settings still do."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from semq.config import ConfigInvalid, load
from semq.config.service_links import service_links
from semq.service.process import log_service_links

NODE = '[node]\nkind = "local"\nid = "10008"\n[hub]\nurl = "amqps://hub.example"\npassword = "x"\n'


def variables_of(service: str, host: str, *ports: tuple[str, int]) -> dict[str, str]:
    """Return the variables of a Service, as the kubelet makes them (``pkg/kubelet/envvars``)."""
    prefix = service.upper().replace("-", "_")
    url_host = f"[{host}]" if ":" in host else host
    result = {f"{prefix}_SERVICE_HOST": host, f"{prefix}_SERVICE_PORT": str(ports[0][1])}
    result[f"{prefix}_PORT"] = f"tcp://{url_host}:{ports[0][1]}"
    for name, number in ports:
        link = f"{prefix}_PORT_{number}_TCP"
        result |= {
            f"{prefix}_SERVICE_PORT_{name.upper().replace('-', '_')}": str(number), link: f"tcp://{url_host}:{number}",
            f"{link}_PROTO": "tcp", f"{link}_PORT": str(number), f"{link}_ADDR": host,
        }  # fmt: skip
    return result


@pytest.mark.parametrize("service", ["semq", "semq-hub", "semq-node", "semq-amqp", "semq-hub-http-1"])
@pytest.mark.parametrize("host", ["10.96.0.7", "fd00::7"])
def test_variables_of_a_service_are_ignored(tmp_path: Path, service: str, host: str) -> None:
    file = tmp_path / "node.toml"
    file.write_text(NODE)
    variables = variables_of(service, host, ("amqps", 5671), ("http-console", 7480))
    assert service_links(variables) == sorted(variables)
    assert load(file, variables | {"SEMQ_AMQP__PORT": "5700"}).amqp.port == 5700


@pytest.mark.parametrize(
    "variables",
    [
        {"SEMQ_PORT": "5671"},
        {"SEMQ_PORT": "tcp://10.96.0.7:5671"},  # alone: no Service
        {"SEMQ_HUB_URL": "amqps://hub.example"},
        variables_of("semq", "10.96.0.7", ("amqps", 5671)) | {"SEMQ_AMQP_PORT": "5671"},
        variables_of("semq", "10.96.0.7", ("amqps", 5671)) | {"SEMQ_PORT": "5671"},
        variables_of("semq", "hub.example", ("amqps", 5671)),
    ],
)
def test_an_unknown_variable_is_refused_also_beside_those_of_a_service(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    file = tmp_path / "node.toml"
    file.write_text(NODE)
    with pytest.raises(ConfigInvalid, match="unknown variable"):
        load(file, variables)


def test_a_node_logs_the_ignored_variables_and_nothing_without_them() -> None:
    variables = variables_of("semq-hub", "10.96.0.7", ("amqps", 5671))
    with capture_logs() as logs:
        log_service_links(variables | variables_of("postgres", "10.96.0.8", ("sql", 5432)))
        log_service_links({"SEMQ_AMQP__PORT": "5671"})
    [line] = logs
    assert (line["event"], line["variables"]) == ("service_links_ignored", sorted(variables))
