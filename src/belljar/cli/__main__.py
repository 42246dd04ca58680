"""`python -m belljar.cli`: the same as `belljar`."""

import sys

from belljar.cli import main

if __name__ == "__main__":
    sys.exit(main())
