"""Actions that are due at a time (PROTOCOL.md sections 5 and 13).

| module    | subject                                                           |
|-----------|-------------------------------------------------------------------|
| schedule  | times of inquiries about rows, without a timer per row            |
| inquiry   | inquiries about rows without an answer (S11, S12, H10)            |
| owed_acks | acknowledgements perhaps not noted, rows blocked by order (R7, R8) |
| expiry    | comparison of @ExpiresAt with the clock                           |
| cleanup   | deletion of rows that are not needed any more (S13, R9)           |
"""
