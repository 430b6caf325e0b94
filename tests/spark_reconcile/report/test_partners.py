"""Pages for partners: each has its own exceptions only, in its language."""

import re

from tests.spark_reconcile.report.published import PublishedReports


def pages(report: PublishedReports) -> dict[str, str]:
    return {file.stem: file.read_text("utf-8") for file in sorted((report.folder / "partners").iterdir())}


def test_a_page_has_the_exceptions_of_its_partner_and_of_nobody_else(report: PublishedReports) -> None:
    rows = report.rows("exceptions.parquet")
    partners = {node for row in rows for node in (row["sender"], row["receiver"])}
    assert pages(report).keys() == partners
    for partner, text in pages(report).items():
        own = [row for row in rows if partner in (row["sender"], row["receiver"])]
        assert set(re.findall(r"<th scope=\"row\"><code>(.*?)</code>", text)) == {row["lk0"] for row in own}
        others = {row["lk0"] for row in rows} - {row["lk0"] for row in own}
        assert not any(lk0 in text for lk0 in others)
        known = {partner} | {node for row in own for node in (row["sender"], row["receiver"])}
        # 1.c has documents of this date, but no exception: no page names it.
        assert set(re.findall(r"<bdi>(\d\.[a-z]+)</bdi>", text)) <= known
        assert "1.c" not in text


def test_a_page_is_in_the_language_of_its_partner_and_names_its_own_commands(report: PublishedReports) -> None:
    text = pages(report)["1.a"]
    assert '<html lang="zh">' in text
    assert "贵方有 8 份单据，其中 7 份需要贵方处理" in text
    assert '<html lang="en">' in pages(report)["1.b"]
    for partner, page in pages(report).items():
        commands = re.findall(r"semq msg inquire ([^ <]+)", page)
        assert commands or partner != "1.a"
        assert "<script" not in page


def test_a_page_refers_to_nothing_else(report: PublishedReports) -> None:
    for text in pages(report).values():
        assert not re.search(r"(src|href)=|url\(", text)
