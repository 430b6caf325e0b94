"""What a document costs in this version, also compared with an older one.

| module    | subject                                                                    |
|-----------|----------------------------------------------------------------------------|
| against   | ``./run bench against COMMIT``: the same measurements on both, in turns    |
| checkout  | an older commit beside this one, and the interpreter that runs its nodes   |
| everyday  | ``./run bench everyday``: what a document alone costs each process         |
| parts     | what is measured: everyday rates, full speed, the start of a node          |
"""
