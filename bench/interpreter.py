"""Whether this Python was built with profile-guided optimisation, with which nodes need a tenth less processor time.

``./run`` runs this file with interpreters until one is optimized (exit status 0). ``bench`` has the answer in its
results.
"""

import sys
import sysconfig


def is_optimized() -> bool:
    """Whether the interpreter was configured with ``--enable-optimizations``, or belongs to the Linux distribution.

    Distributions build with optimisation, but not all record it in the configuration (Debian passes it to ``make``).
    """
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return "--enable-optimizations" in arguments or sys.base_prefix == "/usr"


if __name__ == "__main__":
    sys.exit(not is_optimized())
