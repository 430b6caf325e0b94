"""Modules that have no test of their own name, and the test that would fail first if they were wrong.

The house test compares: every other module of the product has a test opposite, name for name. A module that gets one
needs its row no longer.
"""

# module | test, below tests/
TABLE = """
local_node.link.hub_request            local_node/operations/test_trace.py
local_node.operations.certificates     cli/test_cert.py
local_node.operations.failed           cli/test_worker.py
local_node.operations.messages         local_node/test_node.py
local_node.renewal                     local_node/test_enrolment.py
platform_node.ask_exchange             local_node/operations/test_trace.py
platform_node.directory                platform_node/test_definitions.py
platform_node.node                     local_node/test_node.py
platform_node.operations.registration  platform_node/test_enrolment.py
platform_node.questions                local_node/operations/test_trace.py
semq.amqp.events                       amqp/test_connection.py
semq.app.requests                      app/test_client.py
semq.app.watch                         app/test_client.py
semq.app.worker                        cli/test_worker.py
semq.broker.channel.arrival            broker/test_session.py
semq.broker.channel.feeder             broker/channel/test_consumption.py
semq.broker.channel.settlements        broker/queues/test_bodies.py
semq.broker.environment                broker/test_server.py
semq.broker.limits                     broker/test_server.py
semq.broker.queues.entry               broker/queues/test_queue.py
semq.broker.refusals                   broker/test_services.py
semq.cli.checkup.database              cli/test_doctor.py
semq.cli.checkup.finding               cli/test_doctor.py
semq.cli.checkup.ground                cli/test_doctor.py
semq.cli.checkup.identity              cli/test_doctor.py
semq.cli.checkup.running               cli/test_doctor.py
semq.cli.checkup.way                   cli/test_doctor.py
semq.cli.desk                          cli/test_output_of_commands.py
semq.cli.enrolling                     cli/test_cert.py
semq.cli.failed                        cli/test_worker.py
semq.cli.held                          platform_node/operations/test_held.py
semq.cli.reconcile                     cli/test_groups.py
semq.cli.status                        cli/test_main.py
semq.clock                             simulation/test_campaign.py
semq.config.file                       test_config.py
semq.config.names                      test_config.py
semq.config.nearest                    test_config.py
semq.config.reach                      test_config.py
semq.config.sections                   test_config.py
semq.config.settings                   test_config.py
semq.demo.applications                 demo/test_scenario.py
semq.installation.enrolment            demo/test_scenario.py
semq.engine.bodies                     service/test_process_memory.py
semq.engine.core                       flows/test_documents.py
semq.engine.hub.copies                 flows/test_refused_copies.py
semq.engine.hub.custody                flows/test_documents.py
semq.engine.hub.deeds                  flows/test_refused_copies.py
semq.engine.hub.forwarding             flows/test_documents.py
semq.engine.hub.refusals               flows/test_refused_copies.py
semq.engine.hub.stores                 flows/test_stores.py
semq.engine.hub_engine                 flows/test_limits.py
semq.engine.local_engine               flows/test_secrecy.py
semq.engine.misconduct                 flows/test_hostile_partner.py
semq.engine.ports                      flows/test_turns.py
semq.engine.receiver.completion        app/test_sql.py
semq.engine.receiver.delivery          flows/test_lanes.py
semq.engine.receiver.handover          flows/test_documents.py
semq.engine.receiver.order             flows/test_order.py
semq.engine.receiver.reacks            flows/test_edges.py
semq.engine.receiver.recording         flows/test_documents.py
semq.engine.receiver.user_queue        flows/test_turns.py
semq.engine.secrecy.sealing            flows/test_secrecy.py
semq.engine.secrecy.testimony          flows/test_hearsay.py
semq.engine.sender.deeds               flows/test_refused_copies.py
semq.engine.sender.disbelief           flows/test_disbelief.py
semq.engine.sender.lanes               flows/test_lanes.py
semq.engine.sender.outbound            flows/test_documents.py
semq.engine.sender.positions           flows/test_order.py
semq.engine.sender.receipts            flows/test_documents.py
semq.engine.sender.refused_copies      flows/test_refused_copies.py
semq.engine.sender.resealing           flows/test_stuck.py
semq.engine.sender.sender              flows/test_documents.py
semq.engine.sender.submission          flows/test_documents.py
semq.engine.settings                   flows/test_limits.py
semq.engine.time.expiry                flows/test_expiry.py
semq.engine.time.inquiry               flows/test_edges.py
semq.engine.time.owed_acks             flows/test_left_alone.py
semq.folders.incoming                  folders/test_process.py
semq.folders.outcomes                  folders/test_process.py
semq.folders.outgoing                  folders/test_process.py
semq.service.companion_process         folders/test_process.py
semq.service.database                  service/test_node.py
semq.service.message_names             local_node/test_node.py
semq.service.operations.census         service/operations/test_overview.py
semq.service.operations.inquiry        flows/test_stuck.py
semq.service.operations.proofs         service/test_secrecy.py
semq.service.story                     local_node/operations/test_trace.py
semq.store.broker.operations           broker/durable/test_journal.py
semq.store.broker.statements           store/broker/test_store.py
semq.store.embedded.cluster            store/embedded/test_server.py
semq.store.embedded.identity           store/embedded/test_server.py
semq.store.embedded.process            store/embedded/test_server.py
semq.store.embedded.programs           store/embedded/test_server.py
semq.store.memory_submissions          local_node/doors/test_sql_submissions.py
semq.store.postgres.load               store/postgres/test_writer.py
semq.store.postgres.rows               store/postgres/test_binary.py
semq.store.proof_tables                store/postgres/test_migration.py
semq.store.submission_tables           store/postgres/test_migration.py
semq.store.tables                      store/postgres/test_migration.py
semq.store.views.failed                cli/test_worker.py
semq.store.views.held                  platform_node/operations/test_held.py
semq.store.views.messages              local_node/test_node.py
semq.store.views.submissions           store/views/test_names.py
semq.webhooks.deliveries               webhooks/test_process.py
spark_reconcile.run.diff               spark_reconcile/run/test_job.py
spark_reconcile.extracts.ledger        spark_reconcile/extracts/test_extract.py
spark_reconcile.node                   spark_reconcile/extracts/test_extraction.py
spark_reconcile.sources.parts          spark_reconcile/sources/test_footer.py
spark_reconcile.spark.processes        spark_reconcile/spark/test_session.py
spark_reconcile.repair.repair_list     spark_reconcile/repair/test_acts.py
spark_reconcile.report.banner          spark_reconcile/report/test_page.py
spark_reconcile.report.drill           spark_reconcile/report/test_pairs.py
spark_reconcile.report.findings        spark_reconcile/report/test_sections.py
spark_reconcile.report.metrics         spark_reconcile/report/test_figures.py
spark_reconcile.report.summary         spark_reconcile/report/test_page.py
spark_reconcile.run.stages             spark_reconcile/run/test_job.py
"""
COVERED = dict(line.split() for line in TABLE.strip().splitlines())
# Classes of errors: their codes, texts and remedies are looked at together.
ERRORS = "cli/test_errors_list.py"
