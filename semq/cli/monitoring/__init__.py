"""Commands for monitoring.

| module  | command                                                                      |
|---------|------------------------------------------------------------------------------|
| check   | ``semq check``: one figure compared with two limits, for monitoring programs  |
| figures | ``semq figures``: documents over time                                        |
| top     | ``semq top``: figures of a node, refreshed on the terminal                   |
"""
