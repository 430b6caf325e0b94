"""Reasons for a measurement without figures. ``cli`` prints the docstring of the error."""


class NoFigures(Exception):  # noqa: N818
    """The run was not valid, so its figures would mislead."""


class NodeDied(NoFigures):
    """A node ended unexpectedly; its log has the reason."""


class NoProgress(NoFigures):
    """There was no progress for too long: documents do not arrive, or rows are not cleaned up."""


class Incomplete(NoFigures):
    """Documents were lost, repeated, damaged or refused, or a node had to build a new engine."""


class FloorFailed(NoFigures):
    """A script that measures what Postgres alone achieves (the floor) failed or was ended."""


class NoCheckout(NoFigures):
    """The older version could not be prepared."""
