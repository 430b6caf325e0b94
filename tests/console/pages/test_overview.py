"""The start page: which partners it shows as offline."""

from semq.console.pages.overview import offline_partners


def test_offline_partners_follow_their_messages_without_those_shown_as_stuck() -> None:
    nodes = [f"1.{number}" for number in range(56001, 56005)]
    pairs = [
        {"source": "1.10008", "target": node, "rows": rows} for rows, node in zip((3, 9, 5, 7), nodes, strict=True)
    ]
    partners: dict[str, dict[str, bool | None]] = {node: {"online": node == nodes[3]} for node in nodes}
    pairs.append({"source": "1.10008", "target": "1.88001", "rows": 1})
    partners["1.88001"] = {"online": None}  # not known: the link to the hub is down
    offline = list(offline_partners({"partners": partners}, {"pairs": pairs}, {nodes[1]}))
    assert [partner["node"] for partner in offline] == [nodes[2], nodes[0]]
