"""Generated names have RabbitMQ's forms and are never repeated."""

import re

from semq.broker.generated_names import generated_name, reply_address
from semq.clock import SystemClock

CLOCK = SystemClock()


def test_generated_names_have_their_form_and_differ() -> None:
    assert re.fullmatch(r"amq\.ctag-[A-Za-z0-9_-]{22}", generated_name("amq.ctag-", CLOCK))
    assert generated_name("amq.gen-", CLOCK) != generated_name("amq.gen-", CLOCK)


def test_addresses_of_direct_replies_have_the_form_of_rabbitmq() -> None:
    assert re.fullmatch(r"amq\.rabbitmq\.reply-to\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{22}==", reply_address(CLOCK))
    assert reply_address(CLOCK) != reply_address(CLOCK)
