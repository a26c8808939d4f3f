"""Entry point of the installed program: Ctrl-C ends it quietly while its modules load."""

# The module signal takes long to load, and Ctrl-C may come meanwhile.
import _signal  # type: ignore[import-not-found]  # CPython has it; typeshed does not
import gc

# Only if Python's own handler is set: a parent process may have disabled Ctrl-C.
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
# Start-up allocates about 40,000 objects and frees few: none is collected before the first reply.
NEW_OBJECTS_PER_COLLECTION = 50_000


def main() -> None:
    """Run the `ludolf` command and exit."""
    gc.set_threshold(NEW_OBJECTS_PER_COLLECTION)
    from ludolf.cli.late_modules import import_msgspec, load_late, read_modules_at_once

    read_modules_at_once()
    load_late()
    import_msgspec()
    from ludolf.cli.main import main as run_program

    run_program()
