"""Opposite platform_node."""
