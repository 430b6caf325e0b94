"""The start page: which partners it shows as offline."""

from typing import Any

from semq.console.pages.overview import offline_partners


def test_offline_partners_follow_their_messages_without_those_shown_as_stuck() -> None:
    nodes = [f"1.{number}" for number in range(56001, 56005)]
    pairs: list[dict[str, Any]] = [
        {"source": source, "target": node, "rows": rows, "online": node == nodes[3]}
        for rows, node in zip((3, 9, 5, 7), nodes, strict=True)
        for source in ("1.10008", "1.10009")
    ]
    pairs.append({"source": "1.10008", "target": "1.88001", "rows": 1, "online": None})  # not known
    offline = list(offline_partners({"pairs": pairs}, {nodes[1]}))
    assert [(partner["node"], partner["waiting"]) for partner in offline] == [(nodes[2], 10), (nodes[0], 6)]
