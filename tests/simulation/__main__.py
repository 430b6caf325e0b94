"""`./run simulate`: starts the command line (``command``) in a Python with a fixed hash seed."""

import os
import sys

if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of text are iterated in the order of their hashes, so a seed is reproducible only with one hash seed.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    from tests.simulation.command import main  # the first process needs none of its imports

    sys.exit(main())
