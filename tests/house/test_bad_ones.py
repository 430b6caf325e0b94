"""One bad row, file, document or extract stops nothing but itself: for each kind of object, the tests that show it.

Whoever adds a kind of object that the work of others stands behind adds a row.
"""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

# object | test file | test
TABLE = """
row of any table             store/postgres/refusals/test_refusals_of_all_tables.py  test_every_table_has_a_scene
row that is to be deleted    store/postgres/test_housekeeping.py      test_rows_that_cannot_be_deleted_keep_no_others
definition of a client       store/postgres/refusals/test_refused_definitions.py  test_a_refused_deletion_is_said_and_leaves_the_definition_usable
row of a submission by SQL   local_node/doors/test_sql_submissions.py test_rows_above_the_size_limit_delay_no_others
header of a document         local_node/doors/test_inbox.py           test_a_header_above_the_frame_max_of_a_client_parks_its_document_and_no_other
file to send                 folders/test_outgoing.py                 test_a_name_that_is_not_utf_8_is_refused_and_other_files_are_sent
document for a folder        folders/test_incoming.py                 test_a_document_larger_than_the_disk_is_set_aside_and_others_are_written
note of an outcome           folders/test_outcomes.py                 test_an_outcome_that_cannot_be_written_delays_only_later_ones_of_its_document
document for a webhook       webhooks/test_deliveries.py              test_a_document_whose_address_is_refused_for_it_alone_is_set_aside
event for a webhook          webhooks/test_deliveries.py              test_an_event_that_fails_permanently_does_not_delay_others_and_is_dropped
document in pieces           local_node/pieces/test_transfer.py       test_a_document_with_an_unreadable_envelope_is_refused_and_others_are_sent
catalogue of pieces          local_node/pieces/test_remains.py        test_an_unreadable_message_keeps_the_pieces_of_its_source_only
parcel of an extract         spark_reconcile/extracts/test_delivery.py test_a_parcel_that_cannot_be_processed_is_refused_like_a_wrong_one
extract, manifest            spark_reconcile/sources/test_inputs.py   test_every_fault_of_an_extract_has_a_state
institution of a server      local_node/virtual/test_server.py        test_the_database_of_one_institution_is_away_while_the_others_send
span                         service/telemetry/test_export.py         test_later_batches_are_sent_after_one_that_cannot_be_encoded
"""  # noqa: E501  # rows of a table


@pytest.mark.parametrize("row", TABLE.strip().splitlines(), ids=lambda row: row[:28].strip())
def test_each_kind_of_object_has_a_test_that_a_bad_one_stops_no_other(row: str) -> None:
    *_, file, test = row.split()
    functions = ast.walk(ast.parse((TESTS / file).read_text()))
    assert test in {each.name for each in functions if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
