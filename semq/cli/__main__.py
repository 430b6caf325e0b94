"""The program ``python -m semq.cli``, which is also the command ``semq``."""

from semq.cli import main

if __name__ == "__main__":
    main()
