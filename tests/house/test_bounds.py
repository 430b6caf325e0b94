"""Every door through which a peer reaches a node bounds what one peer can take; a table names the test of each bound.

| bound       | of                                                                                  |
|-------------|-------------------------------------------------------------------------------------|
| total       | sockets or sessions of all peers; whose place a newcomer gets                       |
| one network | sockets or requests of one address                                                  |
| silence     | the time before a login, or between two bytes                                       |
| rate        | slow bytes of something begun                                                       |
| memory      | bytes that have arrived and are not processed                                       |
| share       | what one authenticated peer takes from others                                       |
| guesses     | attempts to log in                                                                  |
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BOUNDS = ("total", "one network", "silence", "rate", "memory", "share", "guesses")
HTTP = "tests/web/transport/test_connection.py::"
AMQP = "tests/transport/test_listener.py::"
# A cell is a test (file::function), or a reason in words why the bound has no meaning there.
TABLE: dict[str, dict[str, str]] = {
    "HTTP (semq/web/transport/server.py)": {
        "total": HTTP + "test_silent_connections_of_some_addresses_do_not_keep_others_out",
        "one network": HTTP + "test_the_number_of_connections_from_an_address_is_limited",
        "silence": HTTP + "test_a_client_with_an_incomplete_head_is_disconnected",
        "rate": HTTP + "test_bodies_below_the_least_rate_are_ended",
        "memory": "tests/web/transport/test_bodies.py::test_a_reservation_waits_for_its_turn",
        "share": HTTP + "test_slow_bodies_of_one_visitor_delay_nobody",
        "guesses": "tests/web/access/test_limits.py::"
        "test_failures_count_for_one_user_at_one_network_and_for_all_users_at_ten_times_the_limit",
    },
    "AMQP (semq/transport/listener.py)": {
        "total": AMQP + "test_silent_connections_of_some_addresses_do_not_keep_others_out",
        "one network": AMQP + "test_the_number_of_connections_from_one_address_is_limited",
        "silence": "tests/amqp/connection/test_lifecycle.py::test_a_slow_negotiation_is_given_up",
        "rate": "slow bodies cost only the memory of the bytes that have arrived; the heartbeat ends silent ones",
        "memory": "tests/amqp/connection/test_connection.py::"
        "test_bodies_arriving_on_many_channels_are_bounded_together",
        "share": "tests/service/test_intake.py::test_a_flood_of_one_speaker_does_not_delay_another_speaker",
        "guesses": "tests/transport/test_link.py::test_a_failed_login_is_answered_only_after_the_pause",
    },
    "TLS handshakes (semq/transport/handshakes.py)": {
        "total": "tests/transport/test_handshakes.py::test_sockets_without_a_handshake_are_counted_and_time_out",
        "one network": "tests/transport/test_places.py::test_addresses_of_one_ipv6_network_are_one_client",
        "silence": "tests/transport/test_handshakes.py::test_sockets_without_a_handshake_are_counted_and_time_out",
        "rate": "the time limit is for the whole handshake",
        "memory": "OpenSSL bounds the bytes of a handshake",
        "share": "nobody is authenticated yet",
        "guesses": "a certificate cannot be guessed",
    },
    "UDP (semq/datagrams/port.py)": {
        "total": "tests/datagrams/test_port.py::test_foreign_bytes_are_counted_and_not_answered",
        "one network": "a datagram without the key of a session costs one look-up of its channel, from any address",
        "silence": "tests/datagrams/test_path.py::test_a_blocked_path_closes_and_opens_again",
        "rate": "a datagram is complete or is no datagram",
        "memory": "tests/datagrams/test_session.py::"
        "test_a_document_for_which_the_receiver_has_no_room_is_dropped_and_not_counted_as_lost",
        "share": "tests/datagrams/test_rate.py::test_the_rate_is_never_below_the_floor_or_above_the_maximum",
        "guesses": "tests/datagrams/test_cipher.py::test_another_channel_secret_or_direction_opens_nothing",
    },
    "enrolment (platform_node/enrolment.py)": {
        "total": "the places of the AMQP port",
        "one network": "the places of the AMQP port",
        "silence": "tests/amqp/connection/test_lifecycle.py::test_a_slow_negotiation_is_given_up",
        "rate": "requests of at most 64 KiB arrive as AMQP messages",
        "memory": "tests/amqp/connection/test_channel.py::test_a_body_above_the_limit_is_refused_before_it_arrives",
        "share": "tests/platform_node/test_enrolment.py::test_a_session_by_token_can_only_enrol",
        "guesses": "tests/platform_node/test_enrolment.py::test_a_token_can_be_used_once",
    },
    "questions of partners (local_node/link/answers.py)": {
        "total": "tests/local_node/link/test_answers.py::test_the_number_of_questions_per_second_is_bounded",
        "one network": "the places of the AMQP port",
        "silence": "tests/amqp/connection/test_lifecycle.py::test_a_slow_negotiation_is_given_up",
        "rate": "requests arrive as AMQP messages",
        "memory": "tests/amqp/connection/test_channel.py::test_a_body_above_the_limit_is_refused_before_it_arrives",
        "share": "tests/local_node/link/test_answers.py::test_the_number_of_questions_per_second_is_bounded",
        "guesses": "askers have certificates",
    },
    "answers of webhooks (semq/webhooks/destination.py)": {
        "total": "the node opens these connections, at most `connections` of a section",
        "one network": "the node opens these connections, at most `connections` of a section",
        "silence": "tests/webhooks/test_destination.py::test_a_request_to_an_application_that_hangs_ends_by_a_timeout",
        "rate": "tests/webhooks/test_destination.py::test_the_status_decides_although_the_body_never_ends",
        "memory": "tests/webhooks/test_destination.py::test_the_status_decides_although_the_body_never_ends",
        "share": "tests/webhooks/test_destination.py::test_after_several_failures_requests_go_one_at_a_time",
        "guesses": "nobody logs in",
    },
}
LISTENING = re.compile(
    r"\.(create_server|create_datagram_endpoint|start_(unix_)?server)\(|\.listen\(backlog|SOCK_DGRAM"
)
# Modules that only find out whether a port or an address can be used
OTHERS = {"semq/service/node_host.py", "semq/service/datagrams/ends.py"}


@pytest.mark.parametrize("door", TABLE)
def test_every_door_has_each_bound_with_a_test_or_a_reason(door: str) -> None:
    assert tuple(TABLE[door]) == BOUNDS
    for bound, cell in TABLE[door].items():
        path, is_test, name = cell.partition("::")
        if not is_test:
            assert " " in cell, (bound, cell)
            continue
        nodes = ast.walk(ast.parse((ROOT / path).read_text()))
        functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in functions, (bound, cell)


def test_every_module_that_listens_is_in_the_table() -> None:
    named = {match for door in TABLE for match in re.findall(r"\(([\w/]+\.py)\)", door)}
    for path in named:
        assert (ROOT / path).is_file(), path
    packages = [ROOT / name for name in ("semq", "local_node", "platform_node", "spark_reconcile")]
    sources = [path for package in packages for path in package.rglob("*.py")]
    listening = {str(path.relative_to(ROOT)) for path in sources if LISTENING.search(path.read_text())}
    assert len(listening) >= 3
    assert listening - named - OTHERS == set()
