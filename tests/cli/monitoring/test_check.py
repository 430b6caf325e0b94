"""``semq check``: exit statuses and formats for monitoring programs."""

import json
import re
import subprocess
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from semq.app.errors import NodeUnreachable
from semq.cli import session
from semq.cli.monitoring.check import SUBJECTS
from tests.app.network import ABSENT, Network
from tests.cli.command import semq
from tests.cli.test_output_of_commands import BAD, UNSAFE
from tests.deploy.programs import PROMTOOL

PAIR = {"source": "1.10008", "target": "1.56001", "rows": 7, "bytes": 70, "late": 1, "oldest_at": 0}
ANSWERS: dict[str, Any] = {
    "node.health": {"verdict": "warning", "checks": [{"check": "link", "verdict": "warning", "detail": "a|b"}]},
    "stuck.causes": {"as_of": 1, "rows": [{"cause": "AWAY", "rows": 7, "partner": "1.56001"}]},
    "queue.census": {"as_of": 7_200_000, "failed": 0, "pairs": [PAIR], "sent": {}, "received": {}, "submitted": {},
                     "oldest": {"at": 0, "where": "for 1.56001"}},
    "node.status": {"certificate": {"days_left": 5.5, "state": "ending"},
                    "partners": {"1.56001": {"online": False}, "1.88001": {"online": None}}},
    "job.list": [{"name": "disk", "error": "full", "paused_at": None, "last_at": "2031"},
                 {"name": "alerts", "error": "", "paused_at": "2031", "paused_why": "tests"}],
}  # fmt: skip


class ScriptedNode:
    """A client whose node gives the answers above. The node of a URL with ``away`` cannot be reached."""

    answers: Any = ANSWERS
    user = "app"

    def __init__(self, url: str, **_: Any) -> None:
        self._is_away = "away" in url

    async def connect(self) -> None:
        if self._is_away:
            raise NodeUnreachable(fault=BAD)

    async def request(self, operation: str, *_: Any, **__: Any) -> Any:
        return self.answers[operation]

    async def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def scripted_node(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let commands use ScriptedNode in all tests without real nodes."""
    if "network" not in request.fixturenames:
        monkeypatch.setattr(session, "Client", ScriptedNode)


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ("node", 1, "WARNING node: link: a|b"),
        ("stuck", 1, "WARNING stuck: 7 AWAY"),
        ("stuck --critical 7", 2, "CRITICAL stuck: 7 AWAY"),
        ("stuck --warning 8", 0, "OK stuck: 7 AWAY"),
        ("failed", 0, "OK failed: 0 documents failed"),
        ("oldest", 1, "WARNING oldest: the oldest open document, for 1.56001, is 7200 s old"),
        ("oldest --critical 2h", 2, "CRITICAL"),
        ("oldest --warning 121m", 0, "OK"),
        ("certificate", 1, "WARNING certificate: 5.5 days left"),
        ("certificate --critical 6", 2, "CRITICAL"),
        ("partner 56001", 2, "CRITICAL partner: offline"),
        ("partner 1", 3, "UNKNOWN partner: "),
        ("partner 88001", 3, "UNKNOWN partner: "),
        ("job disk", 2, "CRITICAL job: failed: full"),
        ("job alerts", 1, "WARNING job: paused"),
        ("job none", 3, "UNKNOWN job: "),
        ("nonsense", 3, "UNKNOWN check: "),
        ("partner 56001 nonsense", 3, "UNKNOWN check: "),
        ("stuck failed --warning 1", 3, "UNKNOWN stuck: SEMQ-1001 Limits are for one subject"),
        ("stuck --warning many", 3, "UNKNOWN stuck: "),
    ],
)
def test_the_exit_status_is_that_of_the_result(words: str, status: int, text: str) -> None:
    result = semq("check", *words.split(), "--node", "simulated")
    assert (result.status, result.err) == (status, "")
    assert result.out.startswith(text)
    assert result.out.count("\n") == (2 if "failed --" in words else 1)


def test_a_node_that_cannot_be_reached_is_critical_in_every_form() -> None:
    for form in ("text", "nagios", "json", "prometheus"):
        result = semq("check", "node", "--node", "away", "--format", form)
        assert result.status == 2
        assert not UNSAFE.search(result.out)
        assert "2" in result.out or "CRITICAL" in result.out


def test_each_form_has_its_syntax() -> None:
    nagios = semq("check", "stuck", "--node", "simulated", "--format", "nagios").out
    assert nagios == "SEMQ WARNING - stuck: 7 AWAY | stuck=7;1;100\n"
    assert "a/b" in semq("check", "node", "--node", "simulated", "--format", "nagios").out.partition(" | ")[0]
    content = json.loads(semq("check", "oldest", "--node", "simulated", "--json").out)
    assert (content["level"], content["status"], content["value"], content["unit"]) == ("WARNING", 1, 7200, "s")
    prometheus = semq("check", "stuck", "--node", "simulated", "--format", "prometheus").out
    assert re.search(r'^semq_check_status\{subject="stuck"\} 1$', prometheus, re.MULTILINE)
    assert re.search(r'^semq_check_value\{subject="stuck"\} 7$', prometheus, re.MULTILINE)


def test_of_several_subjects_each_is_printed_and_the_worst_is_the_exit_status() -> None:
    at = ("--node", "simulated")
    result = semq("check", "failed", "stuck", "job", "disk", *at)
    assert result.out.splitlines() == [
        "OK failed: 0 documents failed and wait for an operator", "WARNING stuck: 7 AWAY", "CRITICAL job: failed: full",
    ]  # fmt: skip
    assert result.status == 2
    unknown = semq("check", "stuck", "job", "none", *at)
    assert (unknown.status, len(unknown.out.splitlines())) == (3, 2)
    nagios = semq("check", "failed", "job", "disk", *at, "--format", "nagios").out
    assert nagios.startswith("SEMQ CRITICAL - failed: 0 documents failed")
    assert nagios.endswith(" | failed=0;1;100 job_disk=2;1;2\n")
    assert [row["status"] for row in json.loads(semq("check", "failed", "stuck", *at, "--json").out)] == [0, 1]
    away = semq("check", "stuck", "partner", "56001", "--node", "away")
    assert (away.status, [line.split(":")[0] for line in away.out.splitlines()]) == (
        2, ["CRITICAL stuck", "CRITICAL partner"],
    )  # fmt: skip


def test_one_file_may_have_the_samples_of_several_checks() -> None:
    def prometheus(*subjects: str) -> str:
        return semq("check", *subjects, "--node", "simulated", "--format", "prometheus").out

    appended = "".join(prometheus(*words.split()) for words in ("node", "stuck", "partner 56001", "partner 88001"))
    at_once = prometheus("node", "stuck", "partner", "56001", "partner", "88001")
    for text in (appended, at_once):
        families: dict[str, Any] = {family.name: family for family in text_string_to_metric_families(text)}
        samples = [sample for family in families.values() for sample in family.samples]
        assert set(families) == {"semq_check_status", "semq_check_value"}
        assert ("partner", "88001", 3) in {
            (sample.labels["subject"], sample.labels.get("name"), sample.value) for sample in samples
        }
    assert "# " not in appended
    check_metrics(at_once)


def check_metrics(text: str) -> None:
    """Let promtool read and judge a text, as node_exporter does."""
    if PROMTOOL:
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=text.encode(), capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_running_node_answers_every_subject(network: Network) -> None:
    at = ("--node", network.sender.url)
    assert semq("check", "node", *at).status in (0, 1)  # other tests leave refused documents at this node
    for subject in ("stuck", "failed", "oldest"):
        assert semq("check", subject, *at).status in (0, 1)
    assert semq("check", "certificate", *at).status == 3
    assert semq("check", "job", "engine", *at).status == 0
    assert semq("check", "partner", ABSENT, *at).status == 2
    assert semq("check", "partner", "56001", "--node", network.hub.url).status == 0
    assert set(SUBJECTS) == {"node", "stuck", "failed", "oldest", "certificate", "job", "partner"}
