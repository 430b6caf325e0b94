"""The selection of tests for a run.

| module  | contents                                                        |
|---------|-----------------------------------------------------------------|
| `kinds` | marks, and the groups of tests that stay together on one worker |
| `turns` | long tests, and the day of the week that runs them              |
"""
