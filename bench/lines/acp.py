"""The Agent Client Protocol: start, sessions, deltas and output, compared with RPC mode."""

import time
from functools import partial
from statistics import median

from bench.acp_client import EditorAgent
from bench.agent import ending
from bench.programs import Home, Program
from bench.stage import Stage

_LINES = 20_000
_STEPS = 20
# The pauses give the agent time to send progress again and again.
_COMMAND = (
    f"for step in $(seq {_STEPS}); do "
    f"seq -f 'line %.0f of the output' {_LINES // _STEPS}; sleep 0.1; done"
)
_OUTPUT_BYTES = _STEPS * sum(
    len(f"line {number} of the output\n") for number in range(1, _LINES // _STEPS + 1)
)


def measure(stage: Stage) -> None:
    stage.attempt(stage.ours, "acp.start", partial(_start, stage))
    stage.attempt(stage.ours, "acp.rss", partial(_memory, stage))
    stage.attempt(stage.ours, "acp.delta", partial(_deltas, stage))
    stage.attempt(stage.ours, "acp.delta.bytes", partial(_delta_bytes, stage))
    for key, shows_terminals in (("acp.output", False), ("acp.terminal", True)):
        stage.attempt(stage.ours, key, partial(_output, stage, key, shows_terminals))


def _start(stage: Stage, program: Program) -> None:
    home = stage.home(program)
    bases, answers, sessions, further = [], [], [], []
    # Alternate, so that other load affects both modes; the first round fills the caches.
    for _ in range(stage.size(10, 3) + 1):
        rpc = home.start()
        try:
            bases.append(rpc.ask("get_state")["at"] - rpc.started)
        finally:
            rpc.close()
        with ending(start_editor(home)) as agent:
            answers.append(agent.initialize() - agent.started)
            opened = agent.open_session()
            sessions.append(opened - agent.started)
            further.append(_seconds_of_a_session(agent, home))
    base = median(bases[1:])
    stage.put(program, "acp.start", median(answers[1:]) / base)
    stage.put(program, "acp.session", median(sessions[1:]) / base)
    stage.put(program, "acp.further", median(further[1:]) / base)


def _memory(stage: Stage, program: Program) -> None:
    home, count = stage.home(program), stage.size(20, 5)
    with stage.agent(program) as rpc:
        rpc.rest(2)
        base = rpc.memory().rss
    with ending(start_editor(home)) as agent:
        agent.initialize()
        agent.open_session()
        agent.rest(2)
        first = agent.memory().rss
        for _ in range(count):
            agent.open_session()
        agent.rest(2)
        last = agent.memory().rss
    stage.put(program, "acp.rss", first - base)
    stage.put(program, "acp.further.rss", (last - first) / count)


def _deltas(stage: Stage, program: Program) -> None:
    home, count = stage.home(program), stage.size(20_000, 2000)
    bases, costs = [], []
    for _ in range(stage.size(3, 1)):
        with stage.agent(program) as rpc:
            rpc.run("Bench text 5")
            bases.append(rpc.run(f"Bench text {count}").cpu)
        with ending(start_editor(home)) as agent:
            _open(agent, home)
            costs.append(agent.run(f"Bench text {count}").cpu)
    stage.put(program, "acp.delta", median(costs) / median(bases))


def _delta_bytes(stage: Stage, program: Program) -> None:
    """Measure at a pace at which no two deltas are merged."""
    home, count = stage.home(program), stage.size(1000, 200)
    with ending(start_editor(home)) as agent:
        _open(agent, home)
        run = agent.run(f"Bench paced {count} 500")
    stage.put(program, "acp.delta.bytes", run.bytes_out / count)


def _output(stage: Stage, key: str, shows_terminals: bool, program: Program) -> None:
    home = stage.home(program)
    with ending(start_editor(home)) as agent:
        _open(agent, home, shows_terminals=shows_terminals)
        agent.ask("session/set_mode", sessionId=agent.session_id, modeId="auto")
        run = agent.run(f"Bench loop 1 {_COMMAND}")
    stage.put(program, key, run.bytes_out / _OUTPUT_BYTES)


def start_editor(home: Home) -> EditorAgent:
    return EditorAgent(home.words("acp"), home.env(), home.work, settles=True)


def _open(agent: EditorAgent, home: Home, *, shows_terminals: bool = False) -> None:
    """Open a session and run a first prompt in it."""
    agent.initialize(shows_terminals=shows_terminals)
    agent.open_session()
    agent.run("Bench text 5")


def _seconds_of_a_session(agent: EditorAgent, home: Home) -> float:
    agent.rest(1)  # modules that are loaded after the first session have been loaded by then
    start = time.perf_counter()
    return agent.open_session() - start
