"""The control database of a hub with several instances: ``cluster_tables`` is its schema, ``cluster`` its queries."""
