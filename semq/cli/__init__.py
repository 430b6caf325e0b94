"""The command line, ``semq``: send and receive documents, read and act on documents, run and check nodes.

Most commands ask a running node over AMQP, by its operations.

| part       | contents                                                                                      |
|------------|-----------------------------------------------------------------------------------------------|
| main       | the entry point; errors become one line and an exit status                                    |
| groups     | the table of commands and their modules                                                       |
| session    | the parts that commands on a node share: connection, output, time limit, options              |
| node_kinds | remedies for commands that were given to the wrong kind of node                               |
| errors     | errors of the command line                                                                    |
| messages   | ``msg``, ``queue``, ``stuck``, ``failed``, ``worker``, ``import``                             |
| node       | ``node``, ``server``, ``call``, ``cert``, ``token``, ``audit``, ``broker``, ``config``, ``db`` |
| demo       | ``demo``                                                                                      |
| hub        | ``hub``, ``held``, ``definitions``                                                            |
| ledger     | ``ledger``, ``verify``, ``reconcile``                                                         |
| web        | ``web``                                                                                       |
| monitoring | ``check``, ``top``                                                                            |
| checkup    | ``doctor``, ``support-bundle``                                                                |
| reference  | ``errors``, ``version``, ``completion``, ``capacity``                                         |
| options    | reading of options and arguments                                                              |
| output     | printing: tables or JSON, and values in words                                                 |
"""

import gc

COLLECTOR_THRESHOLD = 50_000  # new objects between garbage collections, which took a tenth of a short command


def main() -> None:
    """Run the command; end the process with its exit status."""
    gc.set_threshold(COLLECTOR_THRESHOLD)
    from semq.cli.main import run

    raise SystemExit(run())
