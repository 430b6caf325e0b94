"""Import of unfinished rows from an older SEMQ: ``semq import`` (OPERATIONS.md has the procedure).

| module      | content                                                                                |
|-------------|----------------------------------------------------------------------------------------|
| process     | one import: the source and the journal are opened and closed                           |
| mapping     | the meaning of the columns of the older tables: the default, and files in TOML         |
| source      | rows of a database or of CSV files, a few at a time                                    |
| old_rows    | the task of a row, or the reason why it is refused; pure functions                     |
| journal     | the rows that a node has accepted, in a file                                           |
| transfer    | the import of all rows: read, inquire, submit, count                                   |
| report      | counts, and the rows that were not imported, with reasons                              |

The operations ``import.ask`` and ``import.received`` of a local node are in ``local_node.operations.legacy``. Only
``semq import`` loads this package: its database library takes longer to load than most commands take to run.
"""
