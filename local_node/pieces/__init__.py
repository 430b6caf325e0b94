"""Documents in pieces (PROTOCOL.md section 24): too large for one message, and never complete in memory.

| module   | contains                                                                                    |
|----------|---------------------------------------------------------------------------------------------|
| upload   | a body that arrives from an application, committed piece by piece; its manifest             |
| transfer | the pieces on their way to the receiver's node; the manifest follows when all have arrived   |
| assembly | the pieces at the receiver's node, joined for its application                               |
| remains  | the removal of pieces whose document has ended before it was complete                        |
"""
