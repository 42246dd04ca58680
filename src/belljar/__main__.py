"""`python -m belljar`: the same as `belljar`, for where the command is not on the PATH."""

import sys

from belljar.cli import main

if __name__ == "__main__":
    sys.exit(main())
