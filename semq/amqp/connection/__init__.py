"""Connections of both roles, without IO: received bytes become events, commands become bytes to send.

| module         | subject                                                                |
|----------------|------------------------------------------------------------------------|
| server, client | the two roles: protocol header, login, tune, open                      |
| negotiation    | limits and capabilities on which both sides agree                      |
| lifecycle      | start, deadlines, and every way in which a connection ends             |
| connection     | the receiving half: bytes to events                                    |
| sender         | the sending half: commands to bytes                                    |
| channel        | one channel: its state and its contents                                |
| states         | allowed methods in each state of a connection and a channel, as grids  |
"""
