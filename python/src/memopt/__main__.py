"""The command line: ``memopt ...``, and ``python -m memopt ...``."""

from __future__ import annotations

import sys

from . import _execute


def main() -> int:
    """Runs the program that this distribution carries with the arguments of the process."""
    try:
        return _execute(sys.argv[1:])
    except OSError as e:
        print(f"memopt: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
