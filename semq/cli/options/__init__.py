"""Reading of the command line.

| module     | contents                                                          |
|------------|-------------------------------------------------------------------|
| parameters | commands that read options without pydantic; literal help texts   |
| selection  | named documents, or those that filters select                     |
| times      | durations and dates                                               |
"""
