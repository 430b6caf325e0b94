"""The demo: a hub and two institutions as real processes on this machine, and documents on their way between them.

``./run demo`` runs ``python -m semq.demo``. In the order of the play: ``options`` reads the command line, ``papers``
the documents, ``stage`` writes the configuration of three nodes, ``actor`` starts and supervises their processes,
``play`` is the plot, ``board`` knows what has become of each document, ``audience`` shows it, ``verdict`` counts at
the end, ``reckoning`` has the ledgers compared. The demo talks to the nodes as any application does, through
``semq.app``.
"""
