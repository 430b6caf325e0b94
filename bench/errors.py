"""Why a measurement ends without figures. ``cli`` prints the sentence and ends with status 1."""


class NoFigures(Exception):  # noqa: N818
    """The run was not what its figures would stand for."""


class NodeDied(NoFigures):
    """A node ended although nobody asked it to; its log says why."""


class Stuck(NoFigures):
    """Nothing has moved for a minute: documents do not arrive, or rows are not cleaned up."""


class Incomplete(NoFigures):
    """Documents were lost, repeated, damaged or refused, or a node had to begin anew."""


class FloorFailed(NoFigures):
    """A script of the floor ended with an error."""
