"""What the engine does because time has passed (PROTOCOL.md sections 5 and 13).

| module    | subject                                                           |
|-----------|-------------------------------------------------------------------|
| schedule  | which rows to ask about when, without a timer per row             |
| inquiry   | questions about rows that are overdue (S11, H10)                  |
| owed_acks | acknowledgements that may not have been noted (R7, R8)            |
| expiry    | when a document is too old to be delivered (@ExpiresAt)           |
| cleanup   | rows go when their state says that nobody needs them (S13, R9)    |
"""
