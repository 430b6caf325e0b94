"""Large documents, sent in pieces (PROTOCOL.md section 24).

| module   | contains                                                                                    |
|----------|---------------------------------------------------------------------------------------------|
| upload   | a body that arrives from an application, committed piece by piece; its manifest             |
| transfer | sending of pieces to the receiver's node, then of the manifest                              |
| window   | how many pieces may be under way to one node                                                |
| assembly | the pieces at the receiver's node, joined for its application                               |
| remains  | removal of the pieces of documents that ended before they were complete                     |
"""
