"""Growth of cost with size, for Ludolf only."""

from collections.abc import Callable
from functools import partial

from bench.agent import Agent
from bench.known_servers import write_known_servers
from bench.lines import serve_growth
from bench.programs import Program
from bench.session_files import make_session
from bench.stage import Stage
from bench.terminal_rows import growth_of_deltas

_TIMES = 4
_PAIRS = 6


def measure(stage: Stage) -> None:
    for key, growth in MEASURES.items():
        stage.attempt(stage.ours, key, partial(_put, stage, key, growth))


def _put(stage: Stage, key: str, growth: "Measure", program: Program) -> None:
    stage.put(program, key, growth(stage, program))


def _deltas(stage: Stage, program: Program) -> float:
    """Return the cost of the second half of a long answer relative to the first."""
    with stage.agent(program) as agent:
        return _second_half(agent, "Bench text {}", stage.size(20_000, 8000))


def _arguments(stage: Stage, program: Program) -> float:
    with stage.agent(program) as agent:
        return _second_half(agent, "Bench arguments {}", stage.size(20_000, 8000))


def _second_half(agent: Agent, prompt: str, count: int) -> float:
    agent.run(prompt.format(count))  # warm
    # Alternate, so that other load on the machine affects both.
    halves, wholes = [], []
    for _ in range(_TIMES):
        agent.ask("new_session")
        halves.append(agent.run(prompt.format(count // 2)).cpu)
        agent.ask("new_session")
        wholes.append(agent.run(prompt.format(count)).cpu)
    return (min(wholes) - min(halves)) / min(halves)


def _turns(stage: Stage, program: Program) -> float:
    """Return the cost of the last twenty turns relative to turns 10 to 30."""
    turns = stage.size(200, 100)
    with stage.agent(program) as agent:
        agent.run("Bench loop 5 true")
        agent.send("prompt", message=f"Bench loop {turns} true")
        first = len(agent.events)
        early = _cpu_of_a_turn(agent, first, 10, 30)
        late = _cpu_of_a_turn(agent, first, turns - 20, turns)
    return late / early


def _cpu_of_a_turn(agent: Agent, since: int, start: int, end: int) -> float:
    """Return the average CPU time per turn; more turns than awaited may have ended."""
    _wait_for_turn(agent, since, start)
    cpu, count = agent.cpu(), _turns_ended(agent, since)
    _wait_for_turn(agent, since, end)
    return (agent.cpu() - cpu) / max(1, _turns_ended(agent, since) - count)


def _wait_for_turn(agent: Agent, since: int, number: int) -> None:
    agent.wait(lambda: _turns_ended(agent, since) >= number, 300, f"turn {number}")


def _turns_ended(agent: Agent, since: int) -> int:
    return sum(name == "turn_end" for _, name in agent.events[since:])


def _switch(stage: Stage, program: Program) -> float:
    small = stage.size(10_000_000, 2_000_000)
    home = stage.home(program)
    paths = [make_session(home, f"grown{size}", size) for size in (small, 10 * small)]
    costs: list[list[float]] = [[], []]
    with stage.agent(program) as agent:
        agent.rest(1.5)  # exclude imports after the first reply
        for number in range(2 * _TIMES):
            cpu = agent.cpu()
            agent.ask("switch_session", timeout=300, sessionPath=str(paths[number % 2]))
            costs[number % 2].append(agent.cpu() - cpu)
    for path in paths:
        path.unlink()
    return min(costs[1]) / min(costs[0])


def _tools(stage: Stage, program: Program) -> float:
    """Return the cost of a turn with a thousand deferred tools relative to ten."""
    files = [_known_tools(stage, program, count) for count in (10, 1000)]
    few, many = [], []
    # Two processes that do the same differ by up to a tenth: the cheapest of several is compared.
    for _ in range(stage.size(_PAIRS, 2)):
        with (
            stage.agent(program, "--mcp-config", files[0]) as with_few,
            stage.agent(program, "--mcp-config", files[1]) as with_many,
        ):
            for _ in range(stage.size(2 * _TIMES, _TIMES)):
                few.append(_cpu_of_turns(with_few, 25))
                many.append(_cpu_of_turns(with_many, 25))
    return min(many) / min(few)


def _cpu_of_turns(agent: Agent, turns: int) -> float:
    """Return the CPU time of a prompt with this many turns in a new session."""
    agent.ask("new_session")
    return agent.run(f"Bench loop {turns} true").cpu


def _known_tools(stage: Stage, program: Program, count: int) -> str:
    """Write a server with this many known tools; returns the file of its entry."""
    home = stage.home(program)
    file, command = home.folder / f"tools{count}.json", ("ludolf-no-such-server",)
    return str(write_known_servers(file, home.agent, home.work, command, servers=1, tools=count))


def _terminal(stage: Stage, program: Program) -> float:
    """Return the cost of the last thousand deltas of an answer relative to the first."""
    return growth_of_deltas(stage.size(20_000, 6000), part=1000)


Measure = Callable[[Stage, Program], float]
MEASURES: dict[str, Measure] = {
    "growth.deltas": _deltas,
    "growth.turns": _turns,
    "growth.switch": _switch,
    "growth.tools": _tools,
    "growth.arguments": _arguments,
    "growth.sessions": serve_growth.sessions,
    "growth.terminal": _terminal,
    "growth.connections": serve_growth.connections,
}
