"""Entry point of the installed program: Ctrl-C ends it quietly while its modules load."""

# The module signal takes long to load, and Ctrl-C may come meanwhile.
import _signal  # type: ignore[import-not-found]  # CPython has it; typeshed does not

# Only if Python's own handler is set: a parent process may have disabled Ctrl-C.
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from ludolf.cli.main import main as main
