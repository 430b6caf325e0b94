"""Import of unfinished rows from an older SEMQ: ``semq import`` (OPERATIONS.md has the procedure).

| module      | content                                                                                |
|-------------|----------------------------------------------------------------------------------------|
| mapping     | which columns of the older tables have which meaning: the default, and files in TOML   |
| source      | rows of a database or of CSV files, in order and a few at a time                       |
| old_rows    | the treatment of one row; pure                                                         |
| journal     | the rows that a node has taken, in a file                                              |
| transfer    | the import: reads, asks, submits, notes, counts                                        |
| report      | counts, and the rows that were not taken, with reasons                                 |

The operations ``import.ask`` and ``import.received`` of a local node are in ``local_node.operations.legacy``. Nothing
here is loaded by other commands: a database library takes longer to load than most commands to run.
"""
