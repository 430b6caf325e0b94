"""Alert rules evaluated by promtool, as Prometheus does, over series as nodes export them."""

import json
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from semq.service.monitoring.metrics import LATENCY, METRICS
from tests.deploy.programs import PROMTOOL

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "semq.rules.yml"


@dataclass(frozen=True)
class Sample:
    """The last known value of a series of a node."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float

    @property
    def series(self) -> str:
        """The name of the series in the notation of PromQL."""
        return series(self.name, **dict(self.labels))


def series(name: str, **labels: str) -> str:
    quoted = ",".join(f"{label}={json.dumps(value, ensure_ascii=False)}" for label, value in sorted(labels.items()))
    return f"{name}{{{quoted}}}"


def samples(text: str, **labels: str) -> list[Sample]:
    """Return the samples of an answer in the text format, with further labels, as Prometheus adds them."""
    return [
        Sample(sample.name, tuple(sorted((sample.labels | labels).items())), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def growing(sample: Sample, minutes: int, *, with_traffic: bool) -> str:
    """Return the values of a series for some minutes. Ages of documents grow; with traffic, counters grow as well."""
    kind = next((metric.kind for metric in METRICS if metric.name == sample.name), "")
    if sample.name.endswith("_oldest_seconds") and sample.value and not with_traffic:
        return f"{sample.value:.15g}+60x{minutes}"
    is_counter = kind == "counter" or sample.name.startswith(LATENCY)
    step = sample.value if is_counter and with_traffic else 0
    return f"{sample.value:.15g}+{step:.15g}x{minutes}"


def expectation(values: Mapping[str, str], **expected: Any) -> dict[str, Any]:
    """Return a test of promtool over series of one value a minute."""
    input_series = [{"series": name, "values": text} for name, text in values.items()]
    return {"interval": "1m", "input_series": input_series, **expected}


def evaluate(*tests: Mapping[str, Any]) -> str:
    """Evaluate the rules; return what differs from the expectations, or nothing."""
    content = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "tests.json"
        file.write_text(json.dumps(content))  # JSON is YAML, too
        done = subprocess.run([str(PROMTOOL), "test", "rules", str(file)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def firing(alerts: Collection[str], minute: int) -> dict[str, Any]:
    """Return the expectation that exactly these alerts fire."""
    expected = [{"labels": series("", alertname=alert), "value": 1} for alert in alerts]
    expression = 'group by (alertname) (ALERTS{alertstate="firing"})'
    return {"expr": expression, "eval_time": f"{minute}m", "exp_samples": expected}
