"""Kinds of tests as rows: what a test costs, and which tests stay on one worker.

``./run test --quick`` leaves out every test with one of these marks.

| mark        | the test                                                              |
|-------------|-----------------------------------------------------------------------|
| `slow`      | takes more than a second, or is in a file of many tests of 0.1 s      |
| `processes` | starts processes                                                      |
| `spark`     | needs a Java virtual machine                                          |
| `browser`   | lays out a page in a browser                                          |
| `deep`      | takes very long for what it shows: only ``./run test --deep`` runs it |

Tests of one group follow each other on one worker, so that shared things are started once. Groups begin in the order of
their rows: long groups are first, so that at the end no worker is alone with a long one.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import NamedTuple

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

MARKS = ("slow", "processes", "spark", "browser")
DEEP = "deep"
# Fixture | mark of the tests that use it.
FIXTURES = {
    "spark": "spark", "report": "spark", "network": "processes", "inprocess": "slow", "shared_inprocess": "slow",
}  # fmt: skip


class KindOfTests(NamedTuple):
    """A row, for tests whose node id begins with ``prefix``."""

    prefix: str
    marks: tuple[str, ...]
    group: str  #: "-": each test is a group; "file": the tests of a file are a group


def _read(line: str) -> KindOfTests:
    prefix, marks, group = line.split()
    return KindOfTests(f"tests/{prefix}", () if marks == "-" else tuple(marks.split(",")), group)


# prefix below tests/ | marks, "-" for none | group; the first matching row counts
TABLE = """
crash/test_refusing.py                 slow,processes        crash
campaign/test_campaign.py              slow,processes,spark  crash
planted/test_table.py::test_a_trial    slow,processes        -
crash/test_rabbitmq.py                 slow,processes        -
versions/test_rolling_update.py        slow,processes        file
crash/test_pieces.py                   slow,processes        crash
demo/test_scenario.py                  slow,processes,spark  demo
demo/test_hubless.py                   slow,processes,spark  demo
demo/test_cluster.py::test_the_demo    slow,processes,spark,deep  demo
demo/test_cluster.py                   slow,processes,spark  demo
spark_reconcile/spark/test_session.py::test_separate_executors  slow,spark,deep  spark
spark_reconcile/spark/test_session.py  slow,spark            spark
spark_reconcile/spark/test_standalone.py  slow,processes,spark  spark
spark_reconcile/report/test_layout.py  spark,browser         spark
spark_reconcile/judgement/test_assessment.py::test_spark_and_oracle_agree_on_all_messages[compiled-hub_m deep spark
spark_reconcile/judgement/test_assessment.py::test_spark_and_oracle_agree_on_all_messages[compiled-no_hub deep spark
spark_reconcile/extracts/test_extraction.py  slow            spark
bench/reconciliation/test_invention.py       slow            spark
spark_reconcile/sources/test_footer.py       slow            spark
spark_reconcile/extracts/test_extract.py     slow            spark
spark_reconcile/report/test_steps.py         slow            spark
spark_reconcile                        -                     spark
local_node/virtual                     slow,processes        -
bench/test_beside.py::test_small_documents_are_measured_alone_and_beside_large_ones[documents slow,processes,deep  bench
bench/test_cli.py::test_a_disturbed_run_ends_without_figures_files_or_processes[terminate  slow,processes,deep  bench
bench/test_cli.py::test_a_disturbed_run_ends_without_figures_files_or_processes[kill_a  slow,processes,deep  bench
bench/test_cluster.py::test_documents_go_through_two_instances  slow,processes,deep  bench
bench/test_datagrams.py::test_a_short_run_has_all_figures  slow,processes,deep  bench
bench                                  slow,processes        bench
console/test_pages_in_browser.py       slow,browser          console
console/test_roles_and_forms.py        slow,browser          console
console/test_pictures.py               slow,browser          console
documentation/test_tutorial.py         slow,processes        documentation
documentation/test_site.py             slow,browser          documentation
documentation/reference/test_pages.py  slow                  documentation
installation/test_process.py           slow,processes        demo
installation/test_supervision.py       slow,processes        demo
interop                                slow,processes        interop
release                                slow,processes        release
engine/receiver/test_pieces.py         slow                  file
engine/receiver/test_handover.py       slow                  file
engine/sender/test_submission.py       slow                  file
engine/time/test_inquiry.py            slow                  file
flows/test_decided_twice.py            slow                  file
flows/distrust/test_unproved.py        slow                  file
broker/routing/test_topic.py           slow                  file
crash/armed                            slow                  file
prepared/test_client.py                slow                  file
test_counters.py                       slow                  file
service/datagrams                      slow                  -
simulation                             slow                  -
test_house                             -                     house
house/test_dependencies.py             slow                  house
house                                  -                     house
test_protocol_references.py            -                     house
differential                           slow,processes        differential
cli/node/test_process.py               slow,processes        network
cli/node/test_backup.py                slow                  -
cli/node/test_database.py              slow,processes        network
cli/checkup/test_doctor.py             slow,processes        network
cli/checkup/test_support.py            slow,processes        network
legacy/test_process.py                 slow,processes        network
legacy/test_transfer.py::test_each_status_has_its_result_and_nothing_is_sent_twice[csv]     deep  file
legacy/test_transfer.py::test_each_status_has_its_result_and_nothing_is_sent_twice[sqlite]  deep  file
cli/test_main.py                       slow,processes        network
cli/options/test_parameters.py         slow                  network
cli/reference/test_error_codes.py      slow                  network
cli                                    -                     network
app                                    -                     network
service/test_standby.py                slow,processes        file
bench/rabbitmq/test_plain_broker.py    slow,processes        file
flows/secrecy/test_planted.py                  slow,processes        file
store/embedded                         slow,processes        file
store/broker/test_store.py             slow                  file
store/postgres/test_schema_version.py  slow,processes        file
store/postgres                         slow                  file
store/views/test_names.py              slow                  file
broker/test_long_tasks.py              slow                  file
service/test_node.py                   slow                  file
service/companion/test_program.py              slow,processes        file
service/test_process_memory.py         slow,processes        file
service/test_large_documents.py        slow,processes        file
flows/real_nodes/test_groups_killed.py slow,processes        crash
flows/real_nodes/test_figures.py   slow,processes        file
flows/real_nodes/test_failover.py  slow,processes        -
flows/real_nodes/test_hub_failover.py  slow,processes    -
flows/real_nodes/test_direct_killed.py slow,processes        file
flows/real_nodes/test_without_hub.py   slow,processes        file
deploy/test_compose.py             slow,processes        file
deploy/test_alert_rules.py         slow,processes        file
flows/pieces/test_pieces_reader_killed.py  slow,processes        file
folders/test_process.py                slow,processes        doors
web/test_process.py                    slow,processes        file
web/transport/test_spooling.py         slow                  -
web/api/test_description_search.py     slow                  -
webhooks/test_process.py               slow,processes        doors
webhooks/test_destination.py           slow                  file
webhooks/test_deliveries.py            slow                  file
broker/test_session                    slow                  file
transport/test_link.py                 slow                  file
local_node/operations/test_table.py::test_any_arguments  slow  -
installation/test_empty_database.py    slow,processes        file
test_imports.py                        slow,processes        file
installation/test_configuration.py     slow                  file
demo/test_configuration.py             slow                  file
deploy/test_kubernetes.py              slow                  file
service/test_log.py                    slow                  file
store/views/test_pages.py              slow                  file
amqp/connection/test_connection_fuzz.py  slow                file
"""
KINDS = tuple(map(_read, TABLE.strip().splitlines()))
REST = KindOfTests("", (), "file")
RANKS = {kind: rank for rank, kind in enumerate((*KINDS, REST))}


def kind_of(node_id: str) -> KindOfTests:
    return next((kind for kind in _kinds_in(node_id.partition("::")[0]) if node_id.startswith(kind.prefix)), REST)


@cache
def _kinds_in(file: str) -> tuple[KindOfTests, ...]:
    """Return the rows that may apply to tests of a file."""
    return tuple(kind for kind in KINDS if file.startswith(kind.prefix) or kind.prefix.startswith(file))


def marks_of(item: pytest.Item) -> Iterator[str]:
    """Yield the marks of the row and the fixtures of a test."""
    yield from kind_of(item.nodeid).marks
    fixtures: Sequence[str] = getattr(item, "fixturenames", ())
    yield from (FIXTURES[name] for name in fixtures if name in FIXTURES)


def rank_of(node_id: str) -> int:
    return RANKS[kind_of(node_id)]


class Groups(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Distributes the tests over the workers by groups, in the order of the rows.

    A worker begins a test only when it knows the next one. xdist assigns the next group when two tests are left; this
    class assigns it when one is left, so that a long group waits less. If this one is marked, it takes long; then the
    last group of the queue, which is short, is assigned instead of the first.
    """

    def _split_scope(self, nodeid: str) -> str:
        group = kind_of(nodeid).group
        if group == "file":
            return nodeid.partition("::")[0]
        return nodeid if group == "-" else group

    def _reschedule(self, node: WorkerController) -> None:
        if node.shutting_down:
            return
        if not self.workqueue:
            node.shutdown()
            return
        units = self.assigned_work[node].values()
        pending = list(islice((test for unit in units for test, is_done in unit.items() if not is_done), 2))
        if len(pending) == 2:
            return
        if pending and kind_of(pending[0]).marks:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        self._assign_work_unit(node)
