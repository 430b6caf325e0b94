"""The command line, ``semq``: send and receive documents, read and act on messages, run and check nodes.

It is an application like any other: it uses AMQP and the operations of the nodes.

| room       | contents                                                                                      |
|------------|-----------------------------------------------------------------------------------------------|
| main       | the entry point; errors become one line and an exit status                                    |
| groups     | the table of commands; other packages add their groups there                                  |
| session    | the surroundings of a command: connection to a node, output, time limit                       |
| messages   | ``msg``, ``queue``, ``stuck``, ``failed``, ``worker``                                         |
| node       | ``node``, ``call``, ``cert``, ``broker``, ``config``, ``db``, ``local run``, ``platform run`` |
| hub        | ``hub``, ``held``, ``definitions``                                                            |
| ledger     | ``ledger``, ``verify``, ``reconcile``                                                         |
| web        | ``web``                                                                                       |
| monitoring | ``check``, ``top``                                                                            |
| checkup    | ``doctor``                                                                                    |
| reference  | ``errors``, ``version``, ``completion``                                                       |
| options    | reading of options and arguments: parameters, times                                           |
| output     | printing: tables or JSON, and values in words                                                 |

Modules of commands are imported when a command of theirs is used (``groups``).
"""


def main() -> None:
    """The entry point of the installed command."""
    from semq.cli.main import run

    raise SystemExit(run())
