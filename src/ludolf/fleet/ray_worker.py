"""A worker process on a node of Ray: it ends at once when the actor above it is killed.

`python -m ludolf.fleet.ray_worker SOCKET` with an inherited descriptor.
"""

import ctypes
import os
import sys

from ludolf.fleet import worker

_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


def main(words: list[str]) -> None:
    """Run a worker. Its sessions are locked while it runs: none may outlive its actor."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    # The lock of the batch belongs to the machine of the driver.
    worker.main([*words, str(os.open(os.devnull, os.O_RDONLY))])


if __name__ == "__main__":
    main(sys.argv[1:])
