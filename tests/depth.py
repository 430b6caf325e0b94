"""Numbers of examples, seeds and rounds that are larger in a long run.

Test files are imported after ``conftest`` has set ``is_deep``.
"""

is_deep = False  #: whether the run has --deep, or the profile ``deep`` of hypothesis


def deeper(usual: int, deep: int) -> int:
    """Return ``deep`` in a long run, otherwise ``usual``."""
    return deep if is_deep else usual
