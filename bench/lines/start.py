"""Cold start: to the first reply, to a session that takes prompts, and to the first delta."""

from collections import defaultdict
from collections.abc import Iterator

from bench.agent import Agent
from bench.process import cpu_seconds
from bench.programs import Program
from bench.stage import Stage

_PROMPT = "Bench text 5"
_PATIENCE = 60


def measure(stage: Stage) -> None:
    taken: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def once(program: Program) -> None:
        if "start" in stage.notes[program.name]:
            return  # it failed before
        agent = stage.home(program).start()
        try:
            for key, seconds in _steps(agent):
                taken[program.name][key].append(1e3 * seconds)
        finally:
            agent.close()

    # Alternate, so that other load affects all programs; the first round fills the caches.
    for _ in range(stage.size(10, 3) + 1):
        stage.each("start", once, others=True)
    for program in stage.programs:
        for key, values in taken[program.name].items():
            stage.put_all(program, key, values[1:])


def _steps(agent: Agent) -> Iterator[tuple[str, float]]:
    """Yield seconds since the start. The prompt follows the session at once."""
    yield "start", agent.greet() - agent.started
    # The time of the process alone is read at once and does not delay the session.
    yield "start.cpu", cpu_seconds(agent.pid)
    yield "ready", agent.open_session() - agent.started
    agent.prompt(_PROMPT)
    agent.wait(lambda: agent.first_update is not None, _PATIENCE, "first delta")
    assert agent.first_update is not None
    yield "delta.cpu", agent.cpu()
    yield "delta", agent.first_update - agent.started
    agent.wait(lambda: agent.is_idle(0), _PATIENCE, "end of the run")
