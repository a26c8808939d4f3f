"""The terminal front end: start, memory, keys, streams and idleness, next to the terminal of pi."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from statistics import median, quantiles

from bench.process import cpu_seconds
from bench.programs import Program
from bench.stage import Stage
from bench.terminal_program import TerminalProgram, terminal_of

# Until then the engine is ready, and modules for the first prompt are loaded.
_SETTLED = 3.0
_KINDS = ("ludolf", "pi")
_KEYS = 150
# A person does not press keys without a pause.
_PAUSE = 0.02
_DELTAS, _RATE = 480, 100
_ROWS = 100_000


def measure(stage: Stage) -> None:
    programs = [each for each in stage.programs if each.kind in _KINDS]
    _starts(stage, programs)
    for program in programs:
        for key, line in _LINES.items():
            stage.attempt(program, key, partial(line, stage))
    stage.attempt(stage.ours, "terminal.rows", partial(_rows, stage))


def _starts(stage: Stage, programs: list[Program]) -> None:
    """CPU and time from the start to the first key on the screen, in turn."""
    cpus: dict[str, list[float]] = defaultdict(list)
    walls: dict[str, list[float]] = defaultdict(list)

    def once(program: Program) -> None:
        with terminal_of(stage.home(program)) as terminal:
            terminal.echo()
            cpus[program.name].append(1e3 * terminal.cpu())
            walls[program.name].append(1e3 * terminal.seconds())

    for _ in range(stage.size(8, 2) + 1):  # the first round fills the caches
        for program in programs:
            stage.attempt(program, "terminal.start", once)
    for program in programs:
        if len(cpus[program.name]) > 1:
            stage.put(program, "terminal.start.cpu", median(cpus[program.name][1:]))
            stage.put(program, "terminal.start", median(walls[program.name][1:]))


def _idle(stage: Stage, program: Program) -> None:
    """Memory, keys, and what happens while nothing happens."""
    with terminal_of(stage.home(program)) as terminal:
        terminal.rest(_SETTLED)
        stage.put(program, "terminal.rss", terminal.memory().rss)
        _put_keys(stage, program, "terminal.key", _times_of_keys(terminal, _KEYS))
        terminal.rest(1.0)
        cpu, written = cpu_seconds(terminal.pid), terminal.bytes_out
        terminal.rest(stage.size(5, 2))
        stage.put(program, "terminal.idle.cpu", 1e3 * (cpu_seconds(terminal.pid) - cpu))
        stage.put(program, "terminal.idle.bytes", terminal.bytes_out - written)


def _streaming(stage: Stage, program: Program) -> None:
    """Keys while an answer arrives, and the cost of an answer."""
    with terminal_of(stage.home(program)) as terminal:
        terminal.rest(_SETTLED)
        terminal.send("Bench text 5")
        terminal.rest(_SETTLED)
        cpu = cpu_seconds(terminal.pid)
        terminal.send(f"Bench markdown {_DELTAS} {_RATE}")
        terminal.rest(_DELTAS / _RATE + 1.0)
        stage.put(program, "terminal.stream.cpu", cpu_seconds(terminal.pid) - cpu)
        terminal.send(f"Bench markdown {10 * _DELTAS} {_RATE}")
        terminal.rest(1.0)
        _put_keys(stage, program, "terminal.stream.key", _times_of_keys(terminal, _KEYS))


def _times_of_keys(terminal: TerminalProgram, count: int) -> list[float]:
    times = []
    for _ in range(count):
        times.append(terminal.echo())
        terminal.rest(_PAUSE)
    return times


def _put_keys(stage: Stage, program: Program, key: str, times: list[float]) -> None:
    stage.put(program, f"{key}.p50", 1e3 * median(times))
    stage.put(program, f"{key}.p99", 1e3 * quantiles(times, n=100)[-1])


def _rows(stage: Stage, program: Program) -> None:
    stage.measure_module(program, "bench.terminal_rows", str(stage.size(_ROWS, 10_000)))


_LINES: dict[str, Callable[[Stage, Program], None]] = {
    "terminal.rss": _idle,
    "terminal.stream.cpu": _streaming,
}
