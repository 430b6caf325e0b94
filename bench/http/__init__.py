"""Measurements of the web process: ``pages`` over ``large_tables``, by way of the cheap ``client``."""
