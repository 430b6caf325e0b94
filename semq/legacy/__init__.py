"""Import of unfinished rows from an older SEMQ: ``semq import`` (docs/operate/import.md has the procedure).

| module      | content                                                                                |
|-------------|----------------------------------------------------------------------------------------|
| process     | one import: opens and closes the source and the journal                                |
| mapping     | the meaning of the columns of the older tables: the default, and files in TOML         |
| source      | rows of a database or of CSV files, a few at a time                                    |
| old_rows    | the task of the import for a row, or the reason why a row is refused; pure functions   |
| journal     | the rows that a node has accepted, in a file                                           |
| transfer    | the import of all rows: reads, inquires, submits and counts them                       |
| report      | counts, and the rows that were not imported, with reasons                              |
| errors      | errors of mapping, source and journal                                                  |

The operations ``import.ask`` and ``import.received`` of a local node are in ``local_node.operations.legacy``. Only
``semq import`` loads this package, because SQLAlchemy takes long to load.
"""
