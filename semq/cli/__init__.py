"""The command line, ``semq``: send and receive, look and act on messages, run and check nodes. An application like
any other.

| file          | commands                                                     |
|---------------|--------------------------------------------------------------|
| `groups`      | the table of groups; other packages add theirs there         |
| `msg`         | send, list, show, trace, body                                |
| `inbox`       | receive                                                      |
| `broker`      | queues, consumers, connections, channels, exchanges, …       |
| `worker`      | a worker; list                                               |
| `acting`      | cancel, hold, release, resend                                |
| `queue`       | list, partners                                               |
| `stuck`       | list, explain                                                |
| `node`        | status, incarnation, drain, list                             |
| `running`     | platform run, local run                                      |
| `config`      | check, show                                                  |
| `db`          | upgrade, check, current, url                                 |
| `errors_list` | list, lookup                                                 |
| `about`       | version, completion                                          |

`desk` gives a command its node, its output and its time limit; `parameters` reads the values of options; `output`
prints tables (`table`) or JSON, `values` puts times, sizes and statuses in words, `shown` messages, `status` the page
of a node; `files` reads and writes documents; `main` turns errors into one line and an exit status.
"""


def main() -> None:
    """The entry point of the installed command."""
    from semq.cli.main import run

    raise SystemExit(run())
