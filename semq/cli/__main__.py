"""``python -m semq.cli``."""

from semq.cli import main

if __name__ == "__main__":
    main()
