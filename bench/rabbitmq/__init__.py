"""Measurements beside RabbitMQ: ``peers`` with its ``chain`` of virtual hosts, ``broker`` for a node as a plain broker.

``server`` starts Debian's RabbitMQ for them, and for the differential tests.
"""
