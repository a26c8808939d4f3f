"""Entry point of the installed program: Ctrl-C ends it quietly while its modules load."""

import signal

# Only if Python's own handler is set: a parent process may have disabled Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from ludolf.cli.main import main as main
