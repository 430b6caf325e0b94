"""Planted faults: small defects, each put into a copy of the product, which tests or the simulator must notice.

They are written, each with the tests that must fail, not drawn by a tool: a drawn one is often equivalent, and names
no rule.

| module  | contents                                                                      |
|---------|-------------------------------------------------------------------------------|
| `table` | the rows of the files ``*.faults``, one file for each room                    |
| `trial` | a copy of the sources with one defect, and the programs that should notice it |

``./run mutants`` tries all of them, ``--room broker`` those of one file, ``--name TEXT`` those whose name has the text.
The simulator has a table of its own (``tests.simulation.mutations``): whole rules of the protocol, removed by patches
at run time.

A row is a title line and the replacement. The old text must be in the file exactly once:

    # NAME | FILE | what notices it: files or tests of pytest, or `simulate OPTIONS`
    - old text, one or more lines; an indented first line may begin at its first word
    + new text, one or more lines; none deletes the old text

Without a third column, the test opposite the file notices it.
"""
