"""Values of single sections: addresses of databases."""

import pytest
from pydantic import SecretStr, ValidationError

from semq.config.cluster import ClusterSection
from semq.config.sections import DatabaseSection


@pytest.mark.parametrize(
    ("url", "dsn"),
    [
        ("postgresql://u:p@one,two/semq", "postgresql://u:p@one,two/semq?target_session_attrs=read-write"),
        (
            "postgresql+psycopg://u:p@one:1,two:2/semq?sslmode=require",
            "postgresql://u:p@one:1,two:2/semq?sslmode=require&target_session_attrs=read-write",
        ),
        ("postgres://one,two/semq?target_session_attrs=any", "postgresql://one,two/semq?target_session_attrs=any"),
        ("postgresql://one/semq", "postgresql://one/semq"),
    ],
)
def test_a_url_with_several_hosts_selects_the_host_that_accepts_writes(url: str, dsn: str) -> None:
    assert DatabaseSection(url=SecretStr(url)).dsn == dsn
    control = ClusterSection(carrier=[SecretStr("amqp://u:p@127.0.0.1:5672/x")], control=SecretStr(url)).control
    assert control == SecretStr(dsn)


def test_an_address_that_libpq_cannot_read_is_refused_without_its_password() -> None:
    with pytest.raises(ValidationError, match="libpq") as refused:
        DatabaseSection(url=SecretStr("postgresql://u:secret@h/semq?colour=red"))
    assert "secret" not in str(refused.value)
