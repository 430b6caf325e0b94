"""The floor: the row changes of a measurement, written by one script. What Postgres alone can do is the measure.

``reference`` has the row changes of a document, ``script`` repeats them for one node, ``floor`` runs the scripts of all
nodes together, and ``rows`` counts the row changes of the nodes themselves, from Postgres' statistics.
"""
