"""``python -m mtwrappers``."""

import sys

from mtwrappers.cli import main

if __name__ == "__main__":
    sys.exit(main())
