"""Samples: the first third is compared with the last one, and every figure has a chart."""

from tests.campaign import samples
from tests.campaign.samples import CHARTS, Sample


def _sample(at: float, value: float, *names: str) -> Sample:
    return {"at": at, **{chart: dict.fromkeys(names, value) for chart in CHARTS}}


GROWING = [_sample(30.0 * number, float(number), "hub", *(["late"] if number > 3 else [])) for number in range(9)]


def test_growth_compares_the_thirds_of_nodes_that_ran_in_both() -> None:
    assert samples.thirds(GROWING, "rss_mib") == {"hub": (1.0, 7.0)}
    assert samples.growth(GROWING, "rss_mib") == 6.0
    assert samples.growth(GROWING[:2], "rss_mib") == 0.0


def test_latencies_are_compared_by_their_99th_percentiles() -> None:
    latencies = [(float(at), 10.0 if at < 300 else 50.0) for at in range(600)]
    assert samples.p99_ms(latencies) == (10.0, 50.0)
    assert samples.p99_ms(latencies[:2]) == (0.0, 0.0)


def test_the_page_has_a_chart_and_a_comparison_of_each_figure() -> None:
    page = samples.page(GROWING, "Campaign <1>", {"documents": 5})
    assert page.count("<svg") == len(CHARTS)
    assert "Campaign &lt;1&gt;" in page
    assert "<td>+6.0</td>" in page
