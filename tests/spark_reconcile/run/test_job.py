"""Whole runs compared with the generator's truth and with DataComPy; repeated, partial and refused runs."""

import csv
import io
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from bench.reconciliation.invention import Truth, generate
from semq.clock import SystemClock
from spark_reconcile.days import Calendar
from spark_reconcile.errors import BadExtract, BadRepairList, BeingRun, NoSuchRun, SourcesMissing, SparkFailed
from spark_reconcile.extracts.manifest import Signature, date_folder
from spark_reconcile.judgement.verdicts import VERDICT
from spark_reconcile.progress import Progress
from spark_reconcile.repair import repair_list
from spark_reconcile.run import runs, stages
from spark_reconcile.run.diff import diff
from spark_reconcile.run.job import RunRequest, RunResult, run
from spark_reconcile.settings import Limit, ReconcileSettings
from spark_reconcile.spark import session
from spark_reconcile.storage import Place
from tests.depth import deeper
from tests.spark_reconcile.damage import damage_column
from tests.spark_reconcile.office import (
    DAY,
    FORWARD_COURSE,
    HOUR,
    HUB,
    MIDNIGHT,
    STORE_COURSE,
    Office,
    OfficeMessage,
    StandingClock,
)

NEXT = DAY + timedelta(days=1)
MESSAGES = deeper(500, 1000)


def reconcile(settings: ReconcileSettings, spark: SparkSession, clock: StandingClock, **arguments: Any) -> RunResult:
    """Run a date. ``arguments``: fields of RunRequest; ``day`` is DAY by default."""
    day = arguments.pop("day", DAY)
    return run(settings, RunRequest(day, **arguments), clock, Progress(SystemClock(), io.StringIO()), spark)


@dataclass
class PublishedRun:
    """One published run over generated ledgers with every kind of defect."""

    settings: ReconcileSettings
    truth: Truth
    result: RunResult
    folder: Path  #: of the run
    root: Path  #: folder of extracts, reports and truth

    @property
    def summary(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return content

    def table(self, name: str) -> Any:
        return pq.read_table(self.folder / name).to_pandas()


def sign(content: bytes) -> Signature:
    return Signature("hub", "length", str(len(content)))


@pytest.fixture(scope="module")
def published(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> PublishedRun:
    # Names of folders are names, not patterns.
    root = tmp_path_factory.mktemp("published") / "[prod] {a,b}*?\\ #1 100% 订单"
    settings = ReconcileSettings(
        extracts=str(root / "extracts"), reports=str(root / "reports"), zone="Asia/Shanghai", stories_max=2,
        names={"1.10001": "上海凌云贸易", "1.10002": "<b>津南物流</b>"},
        pair_thresholds={"1.10001>1.10002": {"MATCHED": Limit(max_count=0)}},
    )  # fmt: skip
    clock = StandingClock()
    truth = generate(Place.at(settings.extracts), Place.at(root / "truth"), DAY, Calendar("Asia/Shanghai"), clock, MESSAGES,
                     nodes=3, defects=60)  # fmt: skip
    result = reconcile(settings, spark, clock, sign=sign)
    return PublishedRun(settings, truth, result, Path(result.report).parent, root)


def test_counts_are_those_of_the_truth_and_add_up_to_the_messages(published: PublishedRun) -> None:
    found = {name: count for name, count in published.result.verdicts.items() if count}
    assert found == published.truth.verdicts
    assert sum(found.values()) == published.result.messages == MESSAGES
    assert published.summary["verdicts"] == published.result.verdicts
    pairs = published.table("pairs.parquet")
    assert pairs.groupby("verdict")["messages"].sum().to_dict() == found
    assert len(found) == len(VERDICT) - 1  # every verdict except SOURCE_MISSING
    verdicts = published.table("verdicts.parquet")
    both_known = verdicts["accepted_at"].notna() & verdicts["recorded_at"].notna()
    assert (verdicts["latency_ms"].notna() == both_known).all()  # messages that were never recorded have no latency
    assert sum(row["messages"] for row in published.summary["latency"]) == both_known.sum() < MESSAGES


def test_every_message_has_the_verdict_of_the_truth(published: PublishedRun) -> None:
    true = pq.read_table(published.root / "truth" / "truth.parquet").to_pandas().set_index("lk0")["verdict"].to_dict()
    verdicts = published.table("verdicts.parquet")
    assert not verdicts["lk0"].duplicated().any()
    assert verdicts.set_index("lk0")["verdict"].to_dict() == true


def test_datacompy_finds_the_same_differences_between_both_ends(published: PublishedRun) -> None:
    import datacompy  # here, because it takes as long as all other imports of this file

    files = (published.root / "extracts").rglob("*.parquet")
    lines = pa.concat_tables(pq.read_table(file) for file in files).to_pandas()
    sent = lines[(lines.side == 1) & (lines.event == 1)][["lk0", "digest"]]
    recorded = lines[(lines.side == 3) & (lines.event == 20)][["lk0", "digest"]].drop_duplicates("lk0")
    comparison = datacompy.PandasCompare(sent, recorded, join_columns=["lk0"])
    verdicts = published.table("verdicts.parquet").set_index("lk0")
    assert set(comparison.df1_unq_rows["lk0"]) == set(verdicts[verdicts.recorded_at.isna()].index)
    assert set(comparison.df2_unq_rows["lk0"]) == set(verdicts[verdicts.verdict == "UNKNOWN_ORIGIN"].index)
    assert set(comparison.all_mismatch()["lk0"]) == set(verdicts[verdicts.verdict == "DIGEST_MISMATCH"].index)


def test_thresholds_are_applied_to_all_messages_and_to_pairs(published: PublishedRun) -> None:
    assert (published.result.outcome, published.result.exit_code) == ("breached", 3)
    breached = {(breach["pair"], breach["verdict"], breach["what"]) for breach in published.result.breaches}
    assert ("", "MISSING_AT_HUB", "max_count") in breached
    assert ("", "ACK_NOT_RETURNED", "max_rate") in breached
    assert ("1.10001>1.10002", "MATCHED", "max_count") in breached
    assert not any(verdict == "WAITING_OFFLINE" for _, verdict, _ in breached)


def test_the_file_for_spreadsheets_lists_every_exception(published: PublishedRun) -> None:
    content = (published.folder / "exceptions.csv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    exceptions = published.table("exceptions.parquet")
    assert [row["Message (LK0)"] for row in rows] == list(exceptions["lk0"])
    assert {row["Verdict"] for row in rows} == {name for name, v in VERDICT.items() if v.kind == "exception"}
    assert all(row["What to do"] and row["Owner"] and row["At the sender"] for row in rows)
    assert len(rows) == published.summary["exceptions"]


def test_different_digests_stand_where_an_analyst_looks_for_them(published: PublishedRun) -> None:
    exceptions = published.table("exceptions.parquet")
    other = exceptions[exceptions["verdict"] == "DIGEST_MISMATCH"]
    assert len(other) > 0
    page = (published.folder / "report.html").read_text()
    for row in other.to_dict("records"):
        digests = [row["sender_digest"], row["receiver_digest"]]
        assert [len(digest) for digest in digests] == [64, 64]
        assert len(set(digests)) == 2
        assert f"{digests[0]}".encode() in (published.folder / "exceptions.csv").read_bytes()
    assert any(all(f"SHA-256 {row[f'{side}_digest'][:16]}" in page for side in ("sender", "receiver"))
               for row in other.to_dict("records"))  # fmt: skip


def test_the_size_of_the_page_is_bounded(published: PublishedRun) -> None:
    page = (published.folder / "report.html").read_text()
    assert len(page) < 500_000
    assert all(name in page and f"{count:,}" in page for name, count in published.result.verdicts.items())


def test_the_repair_list_of_each_node_has_safe_deeds(published: PublishedRun) -> None:
    place = Place.at(published.folder / "repair")

    def verify(signer: str, content: bytes, signature: Signature, since: int | None) -> bool:
        return since is None and signer == "hub" and signature == sign(content)

    deeds = [
        deed
        for node in ("1.10001", "1.10002", "1.10003", "hub")
        for deed in repair_list.read_repair(place, node, verify)
    ]
    repairable = {"MISSING_AT_HUB", "NOT_DELIVERED", "ACK_NOT_RETURNED", "REACK_NOT_RETURNED"}
    lost = [deed for deed in deeds if deed.deed == "submit"]  # only the sender's application can submit them again
    assert {(deed.verdict, deed.finding, deed.side) for deed in lost} == {
        ("STATE_CONTRADICTION", "settled_without_record", "sender")
    }
    assert {deed.verdict for deed in deeds if deed not in lost} == repairable
    assert (
        sum(published.result.deeds.values())
        == len(deeds)
        == len(lost) + sum(published.result.verdicts[name] for name in repairable)
    )
    assert all(deed.sender == "1.10001" for deed in repair_list.read_repair(place, "1.10001") if deed.side == "sender")
    assert repair_list.read_repair(place, "1.99999") == []
    with pytest.raises(BadRepairList):
        repair_list.read_repair(place, "1.10001", lambda signer, content, signature, since: False)
    with pytest.raises(NoSuchRun):
        repair_list.read_repair(Place.at(published.root), "1.10001")
    (published.folder / "repair" / "1.10002.jsonl").write_text('{"lk0": "1.1.1.1.1.1"}')
    with pytest.raises(BadRepairList):
        repair_list.read_repair(place, "1.10002")


def test_a_repeated_run_writes_the_same_bytes_to_another_folder(published: PublishedRun, spark: SparkSession) -> None:
    clock = StandingClock()
    clock.now += timedelta(hours=3)
    again = reconcile(published.settings, spark, clock)
    other = Path(again.report).parent
    assert other != published.folder
    tables = {str(file.relative_to(other)) for file in other.glob("*.parquet/*")}
    assert tables == {str(file.relative_to(published.folder)) for file in published.folder.glob("*.parquet/*")}
    for name in (
        "summary.json",
        "exceptions.csv",
        "exceptions.xlsx",
        "pairs.xlsx",
        "report.html",
        "report.zh.html",
        *sorted(tables),
    ):
        assert (other / name).read_bytes() == (published.folder / name).read_bytes(), name
    reports = Place.at(published.settings.reports)
    current = runs.current(reports, DAY)
    assert current is not None
    assert current.name == again.run
    assert [run.name for run in runs.of_date(reports, DAY)] == sorted([published.result.run, again.run])
    difference = diff(spark, runs.find(reports, DAY, published.result.run), current)
    assert (difference["changed"], difference["moves"]) == (0, [])
    assert not (other / "_staging").exists()


# ---------------------------------------------------------------- partial and implausible runs


def test_a_missing_source_and_a_wrong_clock_are_named_and_do_not_look_like_loss(
    office: Office, spark: SparkSession
) -> None:
    fast = {"1.fast": HOUR}
    for number in range(6):
        office.write(OfficeMessage(number, "1.fast", "1.b", 9 * HOUR), FORWARD_COURSE, skew=fast)
        office.write(OfficeMessage(100 + number, "1.b", "1.fast", 9 * HOUR), FORWARD_COURSE, skew=fast)
    # Shortly before midnight by the hub's clock; by the receiver's clock, its line is of the next date.
    at_night = office.write(OfficeMessage(7, "1.b", "1.fast", 24 * HOUR - 1_200_000), FORWARD_COURSE, skew=fast)
    office.write(OfficeMessage(8, "1.a", "1.gone", 9 * HOUR), FORWARD_COURSE)
    office.write(OfficeMessage(9, "1.gone", "1.a", 9 * HOUR), STORE_COURSE)
    office.write(OfficeMessage(10, "1.a", "1.nobody", 9 * HOUR), "S:ACCEPTED@0 S:SENT@3 H:REFUSED@24 S:REJECTED@46")
    office.extract(only=["1.fast", "1.b", "1.a", HUB])
    found = reconcile(office.settings, spark, office.clock)
    assert (found.outcome, found.exit_code) == ("partial", 7)
    assert {name: count for name, count in found.verdicts.items() if count} == {
        "MATCHED": 12, "IN_FLIGHT": 1, "SOURCE_MISSING": 2, "REFUSED": 1,
    }  # fmt: skip
    assert found.missing == ["1.gone.1.1"]  # the LK0 of a message names the ledger
    verdicts = pq.read_table(Path(found.report).parent / "verdicts.parquet").to_pylist()
    assert [row["lk0"] for row in verdicts if row["verdict"] == "IN_FLIGHT"] == [at_night.lk0]
    assert max(row["latency_ms"] for row in verdicts if row["verdict"] == "MATCHED") < 2000
    page = Path(found.report).read_text()
    assert "fast by 1 h" in page
    assert '<bdi>1.gone.1.1</bdi></th><td data-label="Documents" class="num">2</td>' in page


def test_with_require_all_an_absent_ledger_is_named_before_spark_starts(office: Office) -> None:
    office.write(OfficeMessage(1, "1.a", "1.gone"), FORWARD_COURSE)
    office.extract(only=["1.a", HUB])

    def stop(*_: Any, **__: Any) -> Any:
        raise AssertionError("Spark was started")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "start", stop)
        with pytest.raises(SourcesMissing) as caught:
            run(
                office.settings, RunRequest(DAY, require_all=True), office.clock, Progress(SystemClock(), io.StringIO())
            )
    assert caught.value.facts["sources"] == ["1.gone"]
    assert caught.value.facts["extracts"] == str(Place.at(office.settings.extracts))
    assert [path for path in (office.root / "reports").rglob("*") if path.is_file() and path.name != ".lock"] == []


def test_the_number_of_named_ledgers_is_bounded(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "ABSENCES_MAX", 2)
    rows = [
        ("SOURCE_MISSING", "receiver_source_missing", f"1.a.1.1.3f.{number}", f"1.n{max(number, 3)}", MIDNIGHT)
        for number in range(9)
    ]
    texts = dict.fromkeys(("verdict", "finding", "lk0", "receiver"), pa.string())
    verdicts = session.small_table(spark, rows, **texts, absent_at=pa.int64())
    assert stages.absences(verdicts, [], Calendar(), DAY, 90) == [("1.n3", DAY, 4), ("1.n4", DAY, 1)]


def test_a_run_without_any_message_is_published_as_implausible(office: Office, spark: SparkSession) -> None:
    for name in ("1.a", "1.b", HUB):
        office.ledger_of(name)
    office.extract()
    found = reconcile(office.settings, spark, office.clock)
    assert (found.outcome, found.exit_code, found.messages) == ("implausible", 3, 0)
    assert "implausible: 0 documents, usually" in Path(found.report).read_text()


# ---------------------------------------------------------------- refused and failed runs, and runs without a hub


def test_without_the_hub_nothing_is_published(office: Office) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract(only=["1.a", "1.b"])
    with pytest.raises(SourcesMissing) as caught:
        run(office.settings, RunRequest(DAY), office.clock, Progress(SystemClock(), io.StringIO()))
    assert caught.value.facts["sources"] == ["the hub"]
    assert runs.dates(Place.at(office.settings.reports)) == [DAY]
    assert runs.of_date(Place.at(office.settings.reports), DAY) == []


def test_institutions_without_a_hub_are_compared_with_each_other(office: Office, spark: SparkSession) -> None:
    courses = {
        "MATCHED": "S:ACCEPTED@0 S:SENT@3 R:RECEIVED@10 S:DELIVERED@20 R:SENDER_ACKED@30",
        "WAITING_OFFLINE": "S:ACCEPTED@0",
        "NOT_DELIVERED": "S:ACCEPTED@0 S:SENT@3",
        "ACK_NOT_RETURNED": "S:ACCEPTED@0 S:SENT@3 R:RECEIVED@10",
    }
    for number, course in enumerate(courses.values()):
        office.write(OfficeMessage(number), course)
    office.extract(only=["1.a", "1.b"])
    # Any number of these verdicts is permitted: only missing sources could make the outcome another one than ``met``.
    permitted = dict.fromkeys(courses, Limit())
    settings = ReconcileSettings(**{**_fields(office.settings), "hub": False, "thresholds": permitted})
    result = run(settings, RunRequest(DAY), office.clock, Progress(SystemClock(), io.StringIO()), spark)
    assert (result.outcome, result.exit_code, result.missing) == ("met", 0, [])
    assert {name: count for name, count in result.verdicts.items() if count} == dict.fromkeys(courses, 1)


def test_a_missing_required_source_is_named(office: Office) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    settings = ReconcileSettings(**{**_fields(office.settings), "required": ("1.a", "1.zzz")})
    with pytest.raises(SourcesMissing) as caught:
        run(settings, RunRequest(DAY), office.clock, Progress(SystemClock(), io.StringIO()))
    assert caught.value.facts["sources"] == ["1.zzz"]


def _fields(settings: ReconcileSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


def test_a_run_that_refuses_an_extract_names_it(office: Office) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    (part,) = office.folder("1.a").glob("part-*")
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(BadExtract) as caught:
        run(office.settings, RunRequest(DAY), office.clock, Progress(SystemClock(), io.StringIO()))
    assert "1.a.1.1 TRUNCATED" in caught.value.facts["sources"][0]


def test_a_failure_of_spark_is_reported_and_nothing_is_published(
    office: Office, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    monkeypatch.setattr(stages, "survey", lambda *_: spark.sql("SELECT raise_error('no space left')").collect())
    with pytest.raises(SparkFailed, match="no space left"):
        reconcile(office.settings, spark, office.clock)
    (failed,) = runs.of_date(Place.at(office.settings.reports), DAY)
    assert failed.result["outcome"] == "failed"
    assert "SEMQ-6010" in failed.result["error"]
    assert runs.current(Place.at(office.settings.reports), DAY) is None


def test_an_extract_that_spark_cannot_decode_is_named(office: Office, spark: SparkSession) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    damage_column(office.folder("1.b"), "lk0")
    with pytest.raises(SparkFailed) as caught:
        reconcile(office.settings, spark, office.clock)
    [damaged] = caught.value.facts["damaged"]
    assert damaged.startswith("1.b.1.1: part-")
    assert "extract the date again" in caught.value.remedy


def test_a_run_whose_extract_is_replaced_while_spark_reads_it_asks_to_be_repeated(
    office: Office, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    survey = stages.survey

    def replace_and_survey(*arguments: Any) -> None:
        office.write(OfficeMessage(2), FORWARD_COURSE)
        office.extract(only=["1.b"])
        survey(*arguments)

    monkeypatch.setattr(stages, "survey", replace_and_survey)
    with pytest.raises(SparkFailed) as caught:
        reconcile(office.settings, spark, office.clock)
    assert caught.value.facts["replaced"] == ["1.b.1.1"]
    assert "repeat the run" in caught.value.remedy
    monkeypatch.undo()
    assert reconcile(office.settings, spark, office.clock).messages == 2


def test_a_date_has_one_run_at_a_time(office: Office) -> None:
    with (Place.at(office.settings.reports) / date_folder(DAY)).lock():
        with pytest.raises(BeingRun):
            run(office.settings, RunRequest(DAY), office.clock, Progress(SystemClock(), io.StringIO()))


def test_a_run_whose_date_ends_before_spark_has_started_is_not_final(
    office: Office, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    end = office.settings.calendar.window(DAY).end
    office.clock.now = datetime.fromtimestamp(end / 1000 - 1, UTC)
    office.extract()
    fit_to = session.fit_to

    def fit_later(*arguments: Any) -> None:
        office.clock.now += timedelta(seconds=10)
        fit_to(*arguments)

    monkeypatch.setattr(session, "fit_to", fit_later)
    reconcile(office.settings, spark, office.clock)
    reports = Place.at(office.settings.reports)
    assert runs.current(reports, DAY) is not None
    assert runs.final(reports, DAY, office.settings.calendar) is None


def test_midnight_of_the_test_zone_is_as_assumed() -> None:
    assert Calendar().window(DAY).start == MIDNIGHT
