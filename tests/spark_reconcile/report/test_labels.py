"""Labels of the cells: each is the heading of its column, also beside cells that span several columns."""

from spark_reconcile.report.labels import labelled

TABLE = (
    '<p>td</p><table><caption>c</caption><thead><tr><th scope="col">Who</th><th class="n">How <span>many</span></th>'
    '<td></td></tr></thead><tbody><tr><th>a</th><td class="n">1</td><td>x</td></tr>'
    '<tr><td colspan="2">b &lt;td&gt;</td><td>y</td></tr><tr><td>c</td></tr></tbody></table>'
)


def test_every_cell_has_the_heading_of_its_column() -> None:
    page = labelled(TABLE)
    assert '<th>a</th><td data-label="How many" class="n">1</td><td>x</td>' in page
    assert '<td colspan="2">b &lt;td&gt;</td><td>y</td>' in page
    assert '<td data-label="Who">c</td>' in page
    assert page.replace(' data-label="How many"', "").replace(' data-label="Who"', "") == TABLE


def test_a_table_without_headings_stays_as_it_is() -> None:
    assert labelled("<table><tr><td>1</td></tr></table>") == "<table><tr><td>1</td></tr></table>"
