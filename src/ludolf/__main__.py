"""`python -m ludolf`."""

import sys

# With -m the current folder stands first on the path: nothing in it may pose as a module of ours.
if not sys.flags.safe_path:
    del sys.path[0]

from ludolf.cli.start import main

if __name__ == "__main__":
    main()
