"""Judgement: from the lines of three ledgers to one verdict for each message.

| module     | subject                                                         |
|------------|-----------------------------------------------------------------|
| situation  | one word for each side of a message, and remarks; without Spark |
| verdicts   | the verdicts, and the grid that gives them; without Spark       |
| facts      | one row per message, from its lines, in Spark                   |
| assessment | verdicts of all rows, in Spark                                  |
"""
