"""Whole nodes over memory stores and an in-memory wire: the engine by its flows and by its parts."""
