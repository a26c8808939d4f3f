"""Extensions in TypeScript: start, calls of handlers, pieces of answers, changes of session.

The same files run in pi. CPU and memory are those of the program and of all its children, which
share pages: PSS counts these once, RSS counts them in each process. Packages are measured if
`LUDOLF_TEST_PACKAGES` names the folder that `make test-packages` has filled.
"""

import os
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from statistics import median

from bench.agent import Agent, Silent
from bench.process import Memory, cpu_seconds, family
from bench.programs import Program
from bench.stage import Stage

_SMALL = """
interface Options { name: string }
export default function (pi: any) {
  const options: Options = { name: "NAME" };
  pi.registerCommand(options.name, { description: "small", handler: async () => {} });
  pi.on("session_start", async () => {});
}
"""
_HANDLED = """
import { writeFileSync } from "node:fs";
export default function (pi: any) {
  pi.on("input", (event: any) => event.text === "handled" ? { action: "handled" } : undefined);
  pi.registerCommand("again", { handler: (args: string, ctx: any) => ctx.reload() });
  pi.registerCommand("reads", { handler: async (args: string, ctx: any) => {
    const count = 1000;
    const times: number[] = [];
    for (let n = 0; n < count; n += 1) {
      const start = process.hrtime.bigint();
      ctx.isIdle();
      times.push(Number(process.hrtime.bigint() - start) / 1000);
      await new Promise(setImmediate);
    }
    times.sort((one, other) => one - other);
    writeFileSync("FILE", String(times[count / 2]));
  } });
}
"""
_MORE_HANDLERS = 20
_MORE = f"""
export default function (pi: any) {{
  for (let n = 0; n < {_MORE_HANDLERS}; n += 1) pi.on("input", () => undefined);
}}
"""
_UPDATES = """
export default function (pi: any) {
  let letters = 0;
  pi.on("message_update", (event: any) => {
    letters += event.assistantMessageEvent.delta?.length ?? 0;
  });
}
"""
_CONTEXT = """
export default function (pi: any) {
  pi.on("context", (event: any) => { if (event.messages.length === 0) return { messages: [] }; });
}
"""
_PADDING = 1 << 20
_COUNTS = (1, 20)
_PACKAGES = ("pi-subagents", "pi-mcp-adapter", "pi-web-access")


def measure(stage: Stage) -> None:
    folder = stage.root / "scripts"
    folder.mkdir(exist_ok=True)
    for number in range(max(_COUNTS)):
        (folder / f"small{number}.ts").write_text(_SMALL.replace("NAME", f"small{number}"))
    handled = _HANDLED.replace("FILE", str(folder / "reads"))
    texts = {"handled": handled, "more": _MORE, "updates": _UPDATES, "context": _CONTEXT}
    for name, text in texts.items():
        (folder / f"{name}.ts").write_text(text)
    for count in _COUNTS:
        names = [f"small{number}" for number in range(count)]
        _measure_start(stage, f"scripts.start.{count}", _named(folder, *names), count)
    _each(stage, "scripts.hook", partial(_calls, stage, folder))
    _each(stage, "scripts.update", partial(_updates, stage, folder))
    _each(stage, "scripts.context", partial(_context, stage, folder))
    if named := os.environ.get("LUDOLF_TEST_PACKAGES"):
        _measure_packages(stage, Path(named))


def _measure_packages(stage: Stage, installed: Path) -> None:
    own = stage.home(stage.ours).agent / "ludolf" / "node"
    if not own.exists():  # jiti, and the library of pi that some packages use
        own.parent.mkdir(parents=True, exist_ok=True)
        own.symlink_to(installed / "pi")
    for name in _PACKAGES:
        place = installed / name / "agent/npm/node_modules" / name
        if place.is_dir():
            _measure_start(stage, f"scripts.package.{name}", ["-e", str(place)], 1)


def _each(stage: Stage, key: str, work: "partial[None]") -> None:
    """Measure the programs that run such extensions."""
    for program in stage.programs:
        if program.kind == "ludolf" or program.is_lean:
            stage.attempt(program, key, work)


def _named(folder: Path, *names: str) -> list[str]:
    return [word for name in names for word in ("-e", str(folder / f"{name}.ts"))]


def _cpu(agent: Agent) -> float:
    total = 0.0
    for pid in family(agent.pid):
        try:
            total += cpu_seconds(pid)
        except OSError:
            continue  # it has ended meanwhile
    return total


def _measure_start(stage: Stage, key: str, words: list[str], count: int) -> None:
    """Measure the start until at least `count` commands are there."""
    walls: dict[str, list[float]] = defaultdict(list)
    cpus: dict[str, list[float]] = defaultdict(list)
    sizes: dict[str, list[Memory]] = defaultdict(list)

    def once(program: Program) -> None:
        agent = stage.home(program).start(*words, "--no-session")
        try:
            reply = agent.ask("get_commands")
            if len(reply["data"]["commands"]) < count:
                raise Silent("extensions are missing; is Node 22.12 there?")
            walls[program.name].append(1e3 * (reply["at"] - agent.started))
            cpus[program.name].append(1e3 * _cpu(agent))
            sizes[program.name].append(agent.memory())
        finally:
            agent.close()

    for _ in range(stage.size(10, 3) + 1):
        _each(stage, key, partial(once))
    for program in stage.programs:
        if walls[program.name]:
            stage.put(program, key, median(walls[program.name][1:]))
            stage.put(program, f"{key}.cpu", median(cpus[program.name][1:]))
            seen = sizes[program.name][1:]
            stage.put(program, f"{key}.pss", median(each.pss for each in seen))
            stage.put(program, f"{key}.rss", median(each.rss for each in seen))


def _calls(stage: Stage, folder: Path, program: Program) -> None:
    count = stage.size(500, 50)
    with stage.agent(program, *_named(folder, "more", "handled")) as agent:
        many = _handled(agent, count)
    with stage.agent(program, *_named(folder, "handled")) as agent:
        added = (many - _handled(agent, count)) / _MORE_HANDLERS
        stage.put(program, "scripts.hook", max(1e6 * added, 0.1))
        agent.ask("prompt", message="/reads")
        stage.put(program, "scripts.read", float((folder / "reads").read_text()))
        new = [_trip(agent, "new_session", "") for _ in range(stage.size(10, 3))]
        stage.put(program, "scripts.new", 1e3 * median(new))
        again = [_trip(agent, "prompt", "/again") for _ in range(stage.size(10, 3))]
        stage.put(program, "scripts.reload", 1e3 * median(again))


def _handled(agent: Agent, count: int) -> float:
    """Return the seconds until a prompt that a handler takes is answered."""
    agent.ask("prompt", message="handled")
    return median(_trip(agent, "prompt", "handled") for _ in range(count))


def _trip(agent: Agent, kind: str, message: str) -> float:
    start = time.perf_counter()
    reply = agent.ask(kind, message=message) if message else agent.ask(kind)
    return float(reply["at"]) - start


def _updates(stage: Stage, folder: Path, program: Program) -> None:
    count = stage.size(5000, 500)
    with stage.agent(program, *_named(folder, "updates")) as agent:
        agent.run("Bench text 5")
        before = _cpu(agent)
        agent.run(f"Bench text {count}")
        stage.put(program, "scripts.update", 1e6 * (_cpu(agent) - before) / count)


def _context(stage: Stage, folder: Path, program: Program) -> None:
    """Measure what a handler of `context` adds to a turn in a conversation of 1 MB."""
    figures = []
    for names in ((), ("context",)):
        with stage.agent(program, *_named(folder, *names)) as agent:
            agent.run(f"Bench text 5 {'x' * _PADDING}")
            agent.run("Bench text 5")
            before, count = _cpu(agent), stage.size(20, 5)
            for _ in range(count):
                agent.run("Bench text 5")
            figures.append(1e3 * (_cpu(agent) - before) / count)
    stage.put(program, "scripts.context", max(figures[1] - figures[0], 0.01))
