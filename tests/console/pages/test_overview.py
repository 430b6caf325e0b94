"""The start page: which partners it shows as offline, and details of checks in words."""

from functools import partial
from typing import Any

from semq.console.pages.overview import detail_words, offline_partners
from semq.service.monitoring.health import REVOKED


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


def test_details_of_checks_are_translated_but_for_the_texts_of_errors() -> None:
    chinese = {"%(days)s days left, renewal at %(at)s": "剩余 %(days)s 天，%(at)s", REVOKED: "已吊销"}
    words = partial(detail_words, lambda text: chinese.get(text, text))
    assert words("90.0 days left, renewal at 2027-01-31") == "剩余 90.0 天，2027-01-31"
    assert (words(REVOKED), words("")) == ("已吊销", "")
    assert words("[Errno 111] 100 % refused") == "[Errno 111] 100 % refused"
