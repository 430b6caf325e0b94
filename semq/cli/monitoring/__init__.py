"""Commands for monitoring.

| module | command                                                                       |
|--------|-------------------------------------------------------------------------------|
| check  | ``semq check``: one figure against two limits, for Nagios and other programs   |
| top    | ``semq top``: the node's figures, refreshed on the terminal                    |
"""
