"""A node forgets in time what is over: at its turn, again after a failure, and for as long as it is configured."""

import psycopg

from local_node.node import LocalNode
from semq.clock import SystemClock
from semq.service.housekeeping import EVERY_S, FIRST_S, RETRY_S, Tidying
from tests.service.inprocess import LOCAL, InProcess

OLD = """
    INSERT INTO tb_0031_token (token, lk0, digest, at)
    SELECT 'old ' || n, 'x', '', now() - interval '8 days' FROM generate_series(1, 3) n"""


class Ahead(SystemClock):
    """The clock of this machine, put ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.by_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.by_s


def tokens(url: str, *first: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in first:
            connection.execute(statement.encode())
        row = connection.execute("SELECT count(*) FROM tb_0031_token").fetchone()
        assert row is not None
        return int(row[0])


async def test_it_takes_its_turns(database: str) -> None:
    clock = Ahead()
    tidying = Tidying(lambda: database, clock, 0)
    assert tokens(database, OLD) == 3
    await tidying.look()
    assert tokens(database) == 3  # not yet
    clock.by_s = FIRST_S
    await tidying.look()
    assert tokens(database) == 0
    assert tokens(database, OLD) == 3
    await tidying.look()
    assert tokens(database) == 3  # not again at once
    clock.by_s += EVERY_S
    await tidying.look()
    assert tokens(database) == 0


async def test_a_turn_that_failed_comes_again_soon(database: str) -> None:
    clock, urls = Ahead(), [f"{database}_that_is_not_there", database]
    tidying = Tidying(lambda: urls.pop(0), clock, 0)
    tokens(database, OLD)
    clock.by_s = FIRST_S
    await tidying.look()
    assert tokens(database) == 3
    clock.by_s += RETRY_S
    await tidying.look()
    assert tokens(database) == 0


async def test_a_node_does_it_by_itself(inprocess: InProcess) -> None:
    clock = Ahead()
    settings = inprocess.settings("10008", LOCAL.format(name="10008", hub=1))
    node = LocalNode(settings, clock)
    inprocess.stack.push_async_callback(node.stop)
    await node.start()
    [job] = [job for job in node.clockwork.jobs if job.name == "housekeeping"]
    url = str(settings.database.dsn)
    assert tokens(url, OLD) == 3
    clock.by_s = FIRST_S
    await job.run()  # type: ignore[misc]
    assert tokens(url) == 0
