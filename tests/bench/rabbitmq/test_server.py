"""The configuration of RabbitMQ's nodes. The tests start no node."""

from pathlib import Path

from bench.rabbitmq.server import cluster_nodes
from semq.installation.configuration import ApplicationLogin


def test_the_nodes_of_a_cluster_know_each_other_and_share_a_cookie(tmp_path: Path) -> None:
    nodes = cluster_nodes(tmp_path, 4369, 3, ApplicationLogin("app", "secret"))
    assert len({node.port for node in nodes}) == len({node.name for node in nodes}) == 3
    for node in nodes:
        lines = (node.folder / "rabbitmq.conf").read_text().splitlines()
        assert f"listeners.tcp.local = 127.0.0.1:{node.port}" in lines
        known = [
            line.rpartition(" ")[2] for line in lines if line.startswith("cluster_formation.classic_config.nodes.")
        ]
        assert known == [node.name for node in nodes]
        assert {"default_user = app", "default_pass = secret"} <= set(lines)
    assert (tmp_path / ".erlang.cookie").stat().st_mode & 0o777 == 0o400
