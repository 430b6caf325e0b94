"""Commands without a node.

| module      | contents                     |
|-------------|------------------------------|
| error_codes | ``errors list|lookup``       |
| version     | ``version``, ``completion``  |
| capacity    | ``capacity``                 |
"""
