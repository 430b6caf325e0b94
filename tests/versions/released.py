"""The release with which this version must work together, and what was recorded of it.

After a release, its commit and a recording of it (``record``) replace those of the one before.
"""

from pathlib import Path

NAME = "1.0"
COMMIT = "85579682"
RECORDED = Path(__file__).parent / "recorded" / NAME
