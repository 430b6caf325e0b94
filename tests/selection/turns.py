"""Long tests, which take turns: ``./run test`` runs the tests of one turn, another turn each day of the week.

Without turns a whole run would take twice as long. ``./run test PATH``, ``--turn all`` and ``--deep`` run all of them.
Campaigns that draw new faults or seeds, basic tests of a node, sweeps that compare the sources with a table, and
floor 0 have no row.
"""

from datetime import UTC, datetime

ALL = "all"
TODAY = "today"

# seconds of one worker on two cores, or + for a part of the row above | file below tests/, or one test of it
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
   2 broker/durable/test_unwritten.py::test_a_restart_restores_the_changes_made_while_the_store_was_away
   4 broker/queues/test_consumers.py::TestConsumersComeAndGo::runTest
   7 broker/queues/test_deadletter.py::test_a_long_chain_of_full_queues_causes_no_deep_recursion
   5 broker/queues/test_queue.py::TestAgainstAList::runTest
   4 broker/queues/test_ready.py
   5 broker/routing/test_topic.py
  15 broker/test_long_tasks.py
   5 broker/test_session.py::test_changed_bytes_in_a_conversation_disturb_no_other_connection
   3 broker/test_session.py::test_garbage_after_the_protocol_header_ends_that_connection_only
  29 cli/checkup/test_doctor.py
   6 cli/messages/test_acts.py
   7 cli/messages/test_inbox.py
   5 cli/messages/test_message.py
   3 cli/messages/test_worker.py::test_documents_are_processed_tried_again_or_parked
   2 cli/node/test_certificates.py::test_a_node_is_enrolled_and_its_certificate_renewed_and_revoked
   8 cli/node/test_backup.py
   8 cli/node/test_database.py
   2 cli/node/test_database.py::test_a_newer_database_is_refused
   3 cli/test_main.py::test_a_wrong_password_ends_with_status_78_and_is_not_printed
   4 console/pages/test_certificates.py
   2 console/pages/test_messages.py::test_members_are_listed_and_cancelled_together
   2 console/pages/test_partners.py::test_users_are_listed_with_their_presence
  69 console/test_pages_in_browser.py
  11 console/test_pictures.py
  13 console/test_roles_and_forms.py
   2 console/test_roles_and_forms.py::test_an_unexpected_error_ends_an_act_on_many_messages_as_failed_and_is_shown
   3 console/test_roles_and_forms.py::test_reading_pages_changes_no_rows
 270 campaign/test_campaign.py::test_all_statements_agree_about_every_document_of_the_day
  44 crash/test_pieces.py
   7 crash/test_rabbitmq.py
  19 crash/test_refusing.py
   3 demo/test_cluster.py
   4 demo/test_configuration.py
   8 demo/test_hubless.py
  10 demo/test_scenario.py::test_the_demo_goes_on_without_the_hub_by_a_direct_link
 126 demo/test_scenario.py::test_the_demo_with_certificates_succeeds_although_each_node_is_killed
  20 documentation/test_site.py
  40 documentation/test_tutorial.py
  19 deploy/test_compose.py
   7 deploy/test_kubernetes.py
   5 deploy/test_kubernetes.py::test_labels_ports_and_volumes_of_the_manifests_agree
   4 engine/receiver/test_handover.py
   5 engine/receiver/test_order.py
  15 engine/receiver/test_pieces.py
   4 engine/sender/test_scheduling.py::test_more_due_documents_than_one_unit_releases_are_all_sent
   5 engine/sender/test_submission.py
  19 engine/time/test_inquiry.py
   4 flows/custody/test_stores.py
   2 flows/custody/test_stores.py::test_stores_named_by_peers_are_counted_within_bounds
  12 flows/distrust/test_flood.py
  12 flows/distrust/test_nonsense.py
   4 flows/distrust/test_rejected_proofs.py
   6 flows/distrust/test_unproved.py
   2 flows/order/test_turns.py::test_orders_that_wait_for_missing_documents_cost_nothing_while_others_continue
  18 flows/real_nodes/test_direct_killed.py
  10 flows/real_nodes/test_failover.py
  30 flows/real_nodes/test_figures.py
  16 flows/real_nodes/test_group_doors.py
  12 flows/real_nodes/test_groups_killed.py
  17 flows/real_nodes/test_homes_moved.py
  10 flows/real_nodes/test_hub_failover.py
  45 flows/real_nodes/test_instances_killed.py
   8 flows/real_nodes/test_left_alone.py
   6 flows/pieces/test_pieces_cost.py
  10 flows/pieces/test_pieces_refused.py
  10 flows/pieces/test_pieces_restored.py
  60 release/test_packages.py
  16 store/postgres/refusals/test_refusals.py::test_any_sqlstate_at_the_receiver_is_one_rejected_document
  18 flows/real_nodes/test_spans.py
  28 flows/real_nodes/test_stuck.py
   7 flows/real_nodes/test_traffic.py
   9 flows/real_nodes/test_way.py
  26 flows/real_nodes/test_without_hub.py
   6 flows/secrecy/test_planted.py
   5 flows/secrecy/test_proof.py
   4 flows/secrecy/test_secrecy.py
   2 flows/test_decided_twice.py::test_every_kind_of_work_of_the_engine_was_decided_twice
   9 flows/test_expiry.py::test_real_nodes_deliver_nothing_late_while_the_sender_is_down
  11 flows/test_limits.py
  24 folders/test_process.py
   5 installation/test_configuration.py
   6 installation/test_empty_database.py
   3 installation/test_process.py
   3 installation/test_supervision.py
  28 interop/test_celery.py
  40 interop/test_examples.py
  33 interop/test_documents_over_http.py
   4 interop/test_kills.py
   7 interop/test_large_bodies.py
  12 interop/test_large_files.py
  41 legacy/test_process.py
  14 legacy/test_transfer.py
   6 local_node/doors/test_inbox.py
   4 local_node/doors/test_nacks.py
  14 local_node/doors/test_refused_submissions.py
   2 local_node/doors/test_schedule.py::test_a_scheduled_document_is_cancelled_or_released_by_an_operator
   5 local_node/doors/test_schedule.py::test_a_scheduled_document_is_shown_and_arrives_on_time
   2 local_node/doors/test_schedule.py::test_sql_schedules_documents_by_a_header_and_reads_their_state
   4 local_node/doors/test_sql_submissions.py::test_each_waiting_submission_keeps_its_own_reason_and_start_of_waiting
  16 local_node/doors/test_user_presence.py
  16 local_node/link/test_direct.py
   3 local_node/link/test_hub_addresses.py
   5 local_node/link/test_partner_questions.py
   5 local_node/link/test_uplink.py
  15 local_node/operations/test_missing.py
   3 local_node/operations/test_table.py::test_any_arguments_are_read_or_refused
  17 local_node/operations/test_trace.py
   5 local_node/pieces/test_remains.py
  22 local_node/pieces/test_transfer.py
   8 local_node/pieces/test_upload.py::test_pieces_without_an_arriving_body_are_removed
  22 local_node/test_enrolment.py
   6 local_node/test_enrolment.py::test_a_running_node_that_is_enrolled_again_continues_with_the_new_certificate
  23 bench/rabbitmq/test_plain_broker.py
  61 local_node/virtual/test_server.py
  12 planted/test_table.py::test_a_trial_says_whether_a_test_failed_and_takes_the_fault_out
  18 platform_node/all_stores/test_fan_out.py
   7 platform_node/operations/test_definitions.py
  18 platform_node/operations/test_held.py
   5 platform_node/operations/test_stores.py
  27 platform_node/test_authority_roll.py
  21 platform_node/test_cluster.py
   7 platform_node/test_enrolment.py
   3 platform_node/test_enrolment.py::test_a_node_enrols_and_links_by_its_certificate
  17 platform_node/test_session_guard.py
   8 service/companion/test_program.py
   3 service/companion/test_sections.py::test_a_failed_section_is_started_again_while_the_others_continue
  12 service/credentials/test_secrecy.py
  49 service/datagrams/test_ends.py
   7 service/links/test_packet_limit.py
   2 service/links/test_sessions.py::test_a_hostile_node_reads_no_queue_of_another_node
   5 service/operations/test_figures.py
   3 service/operations/test_jobs.py
   4 service/operations/test_overview.py
   7 service/operations/test_reload.py
  11 service/operations/test_trust.py
   3 service/test_admin.py
  10 service/test_large_documents.py
   4 service/test_log.py
   2 service/test_nightly_extract.py::test_a_failed_extract_is_repeated_and_does_not_affect_the_node
   4 service/test_nightly_extract.py::test_a_node_extracts_completed_dates_at_its_start
   2 service/test_node_commits.py::test_a_single_document_costs_three_commits
  20 service/test_process_memory.py
  14 service/test_standby.py
   6 service/test_wire.py
  12 simulation/documents/test_groups.py
  30 simulation/test_instances.py
   4 simulation/documents/test_schedule.py
  18 spark_reconcile/extracts/test_extraction.py
   5 spark_reconcile/extracts/test_signatures.py
  90 spark_reconcile/judgement/test_assessment.py
   + spark_reconcile/extracts/test_ledger.py
   + spark_reconcile/judgement/test_facts.py
   5 spark_reconcile/judgement/test_verdicts.py::test_every_situation_has_a_verdict_and_every_row_of_the_grid_is_reached
  13 spark_reconcile/repair/test_acts.py::test_a_node_inquires_about_open_messages_and_skips_resolved_messages
  90 spark_reconcile/report/test_layout.py
   + spark_reconcile/report/test_page.py
  18 spark_reconcile/report/test_steps.py
 140 spark_reconcile/run/test_documents.py
   + spark_reconcile/run/test_job.py
   5 bench/reconciliation/test_invention.py
 115 spark_reconcile/sources/test_clocks.py
   + spark_reconcile/sources/test_evidence.py
   + spark_reconcile/sources/test_late.py
   + spark_reconcile/spark/test_class_archive.py
   + spark_reconcile/spark/test_session.py
 120 spark_reconcile/spark/test_standalone.py
   5 spark_reconcile/sources/test_footer.py::test_a_footer_with_excessive_sizes_is_not_unpacked
   5 spark_reconcile/sources/test_inputs.py
  13 store/embedded/test_server.py
   2 store/embedded/test_server.py::test_a_busy_orphan_does_not_hinder_the_restart
   3 store/postgres/conversion/test_binary.py::test_rows_written_by_insert_are_read_as_they_were_packed
   5 store/postgres/test_chain.py
   3 store/postgres/conditions/test_durability.py
   4 store/postgres/test_ledger_partitions.py
  22 store/postgres/test_migration.py
   3 store/postgres/test_recovery.py::test_streams_recover_their_floors_and_gaps
  40 store/postgres/conditions/test_requirements.py
   4 store/postgres/test_schema_version.py::test_a_node_imports_alembic_only_to_upgrade
   4 store/views/test_groups.py
   9 store/views/test_names.py
   6 store/views/test_pages.py
   5 store/views/test_pages.py::test_both_queues_are_merged_by_time_and_no_row_is_left_out
   4 test_counters.py
  17 test_imports.py
   4 test_protocol_references.py
   2 transport/test_link.py::test_a_flooding_connection_is_read_in_turns_with_other_connections
   2 transport/test_link.py::test_a_peer_gets_the_last_bytes_although_the_server_has_not_read_all_of_its_bytes
   4 transport/test_link.py::test_output_for_a_slow_reader_is_bounded_and_others_are_not_delayed
   9 web/access/test_oidc.py
   3 web/access/test_sign_in.py::test_a_password_signs_in_and_each_failure_looks_the_same
  20 web/api/test_authentication.py
  45 web/api/test_description_search.py
   4 web/api/test_documents.py::test_a_document_is_accepted_delivered_and_received
   2 web/api/test_documents.py::test_a_repeat_with_the_same_idempotency_key_is_not_accepted_as_a_second_document
   7 web/api/test_events.py
  11 web/api/test_inbox.py
   2 web/api/test_inbox.py::test_an_unacknowledged_document_is_delivered_again_after_its_lease
   6 web/api/test_inbox.py::test_parallel_polls_receive_one_document_each
   6 web/api/test_node_operations.py
  10 web/api/test_polls.py
   8 web/node/test_monitoring.py
  18 web/node/test_payloads.py
  14 web/pages/test_account_pages.py
   5 web/pages/test_token_pages.py
  15 web/test_process.py
   7 web/transport/test_connection.py
   6 web/transport/test_hosts.py
   4 web/transport/test_server.py::test_a_client_certificate_has_the_rights_of_its_fingerprint
  40 web/transport/test_spooling.py
   6 webhooks/test_deliveries.py
   2 webhooks/test_destination.py::test_the_next_address_of_a_host_is_tried_if_the_first_never_answers
   4 webhooks/test_destination.py::test_the_status_decides_although_the_body_never_ends
  13 webhooks/test_process.py
  50 versions/test_rolling_update.py
  10 versions/test_recorded.py::test_nodes_of_this_version_finish_the_documents_in_databases_of_the_released_one
"""


def _turns_of(table: str, count: int) -> tuple[dict[str, int], ...]:
    """Return the rows of each turn with their seconds. Each row is in the turn that is the shortest so far."""
    rows: list[tuple[int, list[str]]] = []
    for first, name in map(str.split, table.strip().splitlines()):
        if first == "+":  # tests that share something costly, such as a Java process
            rows[-1][1].append(f"tests/{name}")
        else:
            rows.append((int(first), [f"tests/{name}"]))
    turns: tuple[dict[str, int], ...] = tuple({} for _ in range(count))
    for seconds, names in sorted(rows, key=lambda row: -row[0]):
        shortest = min(turns, key=lambda turn: sum(turn.values()))
        shortest |= {name: seconds if name == names[0] else 0 for name in names}
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
