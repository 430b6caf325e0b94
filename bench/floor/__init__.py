"""The floor of a measurement: its row changes, written by one script, show what Postgres alone can do.

``reference`` has the row changes of a document, ``script`` repeats them for one node, ``floor`` runs the scripts of all
nodes together, and ``rows`` counts the row changes of the nodes themselves, from Postgres' statistics.
"""
