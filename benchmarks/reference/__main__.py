"""Runs the script."""

import sys

from benchmarks.reference import main

sys.exit(main())
