"""Judgement: from the lines of three ledgers to one verdict for each message.

| module     | subject                                                           |
|------------|-------------------------------------------------------------------|
| situation  | a word for each side and remarks; pure                            |
| verdicts   | the verdicts, and the grid that gives one to each situation; pure |
| facts      | one row per message, from its lines, in Spark                     |
| assessment | verdicts of all rows, in Spark                                    |
"""
