"""The link to the hub: ``uplink``, requests beside it (``hub_request``), ``answers`` to questions of others."""
