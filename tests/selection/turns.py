"""Long tests, which take turns: ``./run test`` runs those of one turn, a different one each day of the week.

Without turns a whole run would take twice as long. ``./run test PATH``, ``--turn all`` and ``--deep`` run all of them.
Campaigns that draw new faults or seeds, basic tests of a node, and floor 0 have no row.
"""

from datetime import UTC, datetime

ALL = "all"
TODAY = "today"

# seconds of one worker of two cores | file below tests/, or one test of it with all its parameters
TABLE = """
  16 app/test_client_examples.py
   9 app/test_link.py::test_a_login_with_a_wrong_user_password_or_virtual_host_is_refused
   4 app/test_sql.py::test_a_document_in_pieces_is_received_by_sql_and_leaves_nothing
   3 app/test_sql.py::test_a_document_whose_pieces_differ_is_parked_and_pieces_are_in_no_inbox
   6 app/test_sql.py::test_sealed_documents_have_the_digest_of_their_payload
   6 bench/rabbitmq/test_peers.py
   4 bench/reconciliation/test_engines.py
  19 bench/test_beside.py
  12 bench/test_cli.py::test_a_disturbed_run_ends_without_figures_files_or_processes
  56 bench/test_phases.py
  17 bench/test_sessions.py
   4 broker/queues/test_consumers.py::TestConsumersComeAndGo::runTest
   7 broker/queues/test_deadletter.py::test_a_long_chain_of_full_queues_causes_no_deep_recursion
   5 broker/queues/test_queue.py::TestAgainstAList::runTest
   4 broker/queues/test_ready.py
   5 broker/routing/test_topic.py
  15 broker/test_long_tasks.py
   5 broker/test_session.py::test_changed_bytes_in_a_conversation_disturb_no_other_connection
  29 cli/checkup/test_doctor.py
   7 cli/messages/test_inbox.py
   9 cli/node/test_call.py::test_commands_use_existing_operations_and_every_operation_is_used
   4 cli/options/test_parameters.py::test_every_word_of_every_help_text_is_displayed
   3 cli/test_main.py::test_a_wrong_password_ends_with_status_78_and_is_not_printed
  69 console/test_pages_in_browser.py
  11 console/test_pictures.py
   3 console/test_roles_and_forms.py::test_reading_pages_changes_no_rows
   4 console/test_words.py::test_every_text_is_translated_and_none_is_left_over
  44 crash/test_documents.py
   7 crash/test_rabbitmq.py
  19 crash/test_refusing.py
   3 demo/test_cluster.py
   4 demo/test_configuration.py
   8 demo/test_hubless.py
 126 demo/test_scenario.py::test_the_demo_with_certificates_succeeds_although_each_node_is_killed
  10 demo/test_scenario.py::test_the_demo_goes_on_without_the_hub_by_a_direct_link
  19 deploy/test_compose.py
   5 deploy/test_kubernetes.py::test_labels_ports_and_volumes_of_the_manifests_agree
   4 engine/receiver/test_handover.py
  15 engine/receiver/test_pieces.py
   4 engine/sender/test_scheduling.py::test_more_due_documents_than_one_unit_releases_are_all_sent
   5 engine/sender/test_submission.py
  12 flows/distrust/test_flood.py
  12 flows/distrust/test_nonsense.py
  18 flows/real_nodes/test_direct_killed.py
  10 flows/real_nodes/test_failover.py
  16 flows/real_nodes/test_group_doors.py
  12 flows/real_nodes/test_groups_killed.py
  17 flows/real_nodes/test_homes_moved.py
  45 flows/real_nodes/test_instances_killed.py
   8 flows/real_nodes/test_left_alone.py
   6 flows/real_nodes/test_pieces_cost.py
  10 flows/real_nodes/test_pieces_refused.py
  18 flows/real_nodes/test_spans.py
  28 flows/real_nodes/test_stuck.py
   7 flows/real_nodes/test_traffic.py
   9 flows/real_nodes/test_way.py
  26 flows/real_nodes/test_without_hub.py
   6 flows/secrecy/test_planted.py
   9 flows/test_expiry.py::test_real_nodes_deliver_nothing_late_while_the_sender_is_down
  11 flows/test_limits.py
  24 folders/test_process.py
   6 installation/test_empty_database.py
   3 installation/test_process.py
  15 interop/test_celery.py
  33 interop/test_documents_over_http.py
   4 interop/test_kills.py
   7 interop/test_large_bodies.py
  12 interop/test_large_files.py
  41 legacy/test_process.py
  14 legacy/test_transfer.py
   6 local_node/doors/test_inbox.py
  14 local_node/doors/test_refused_submissions.py
   5 local_node/doors/test_schedule.py::test_a_scheduled_document_is_shown_and_arrives_on_time
   4 local_node/doors/test_sql_submissions.py::test_each_waiting_submission_keeps_its_own_reason_and_start_of_waiting
  16 local_node/doors/test_user_presence.py
  16 local_node/link/test_direct.py
   5 local_node/link/test_partner_questions.py
   3 local_node/operations/test_table.py::test_any_arguments_are_read_or_refused
  17 local_node/operations/test_trace.py
   5 local_node/pieces/test_remains.py
  22 local_node/pieces/test_transfer.py
   8 local_node/pieces/test_upload.py::test_pieces_without_an_arriving_body_are_removed
   6 local_node/test_enrolment.py::test_a_running_node_that_is_enrolled_again_continues_with_the_new_certificate
  23 local_node/test_plain_broker.py
  58 local_node/virtual/test_server.py
  18 platform_node/all_stores/test_fan_out.py
  18 platform_node/operations/test_held.py
   5 platform_node/operations/test_stores.py
  27 platform_node/test_authority_roll.py
  21 platform_node/test_cluster.py
  17 platform_node/test_session_guard.py
   8 service/companion/test_program.py
   3 service/companion/test_sections.py::test_a_failed_section_is_started_again_while_the_others_continue
  12 service/credentials/test_secrecy.py
  49 service/datagrams/test_ends.py
   4 service/operations/test_overview.py
  11 service/operations/test_trust.py
  10 service/test_large_documents.py
   4 service/test_log.py
   4 service/test_nightly_extract.py::test_a_node_extracts_completed_dates_at_its_start
  20 service/test_process_memory.py
  14 service/test_standby.py
   6 service/test_wire.py
  12 simulation/test_groups.py
  30 simulation/test_instances.py
   4 simulation/test_schedule.py
  18 spark_reconcile/extracts/test_extraction.py
  72 spark_reconcile/judgement/test_assessment.py
   5 spark_reconcile/judgement/test_facts.py::test_messages_that_an_older_version_left_open_are_carried_on
   5 spark_reconcile/judgement/test_verdicts.py::test_every_situation_has_a_verdict_and_every_row_of_the_grid_is_reached
  13 spark_reconcile/repair/test_acts.py::test_a_node_inquires_about_open_messages_and_skips_resolved_messages
  89 spark_reconcile/report/test_layout.py
  47 spark_reconcile/run/test_documents.py
  94 spark_reconcile/run/test_job.py
   5 spark_reconcile/samples/test_invention.py
  56 spark_reconcile/sources/test_evidence.py
   5 spark_reconcile/sources/test_footer.py::test_a_footer_with_excessive_sizes_is_not_unpacked
  56 spark_reconcile/spark/test_session.py
  22 store/postgres/test_migration.py
   3 store/postgres/test_recovery.py::test_streams_recover_their_floors_and_gaps
   4 store/postgres/test_schema_version.py::test_a_node_imports_alembic_only_to_upgrade
   4 store/views/test_groups.py
   9 store/views/test_names.py
   5 store/views/test_pages.py::test_both_queues_are_merged_by_time_and_no_row_is_left_out
   4 test_counters.py
  17 test_imports.py
   4 transport/test_link.py::test_output_for_a_slow_reader_is_bounded_and_others_are_not_delayed
  20 web/api/test_authentication.py
  45 web/api/test_description_search.py
   4 web/api/test_documents.py::test_a_document_is_accepted_delivered_and_received
   6 web/api/test_inbox.py::test_parallel_polls_receive_one_document_each
   8 web/node/test_monitoring.py
  18 web/node/test_payloads.py
   5 web/pages/test_token_pages.py
  10 web/test_process.py
   4 web/transport/test_server.py::test_a_client_certificate_has_the_rights_of_its_fingerprint
  40 web/transport/test_spooling.py
   4 webhooks/test_destination.py::test_the_status_decides_although_the_body_never_ends
  13 webhooks/test_process.py
"""


def _turns_of(table: str, count: int) -> tuple[dict[str, int], ...]:
    """Return the rows of each turn with their seconds. Each row is in the turn that is the shortest so far."""
    turns: tuple[dict[str, int], ...] = tuple({} for _ in range(count))
    rows = ((int(seconds), name) for seconds, name in map(str.split, table.strip().splitlines()))
    for seconds, name in sorted(rows, key=lambda row: -row[0]):
        min(turns, key=lambda turn: sum(turn.values()))[f"tests/{name}"] = seconds
    return turns


TURNS = _turns_of(TABLE, 7)
NUMBERS = {name: number for number, turn in enumerate(TURNS, 1) for name in turn}
CHOICES = (ALL, TODAY, *(str(number) for number in range(1, 1 + len(TURNS))))


def turn_of_today() -> str:
    """Return the number of the day of the week (UTC), from 1 for Monday."""
    return str(datetime.now(UTC).isoweekday())


def is_in_turn(node_id: str, choice: str) -> bool:
    """Return whether a test is in the chosen turn, or in all."""
    test = node_id.partition("[")[0]
    number = NUMBERS.get(test) or NUMBERS.get(test.partition("::")[0])
    return choice == ALL or number is None or number == int(choice)
