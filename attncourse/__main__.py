"""`python -m attncourse` is `attncourse`."""

import sys

from attncourse.cli import main

if __name__ == "__main__":
    sys.exit(main())
