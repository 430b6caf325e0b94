"""Reading of the command line.

| module     | contents                                                          |
|------------|-------------------------------------------------------------------|
| parameters | commands that read options without pydantic; literal help texts   |
| times      | durations and dates                                               |
"""
