// Uses our modules for pi's packages as an extension would, and prints what they do as JSON.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const folder = new URL("../../src/ludolf/pi_host/modules/", import.meta.url).pathname;
const said = [];
const calls = [];
const MODELS = [
  { provider: "a", id: "one" },
  { provider: "b", id: "two" },
];
const ANSWERS = {
  models: () => MODELS,
  find_model: ({ provider, id }) =>
    MODELS.find((one) => one.provider === provider && one.id === id) ?? null,
  builtin_tool: ({ name }) => ({ name, label: name, parameters: { type: "object" } }),
  yaml: ({ text }) => Object.fromEntries(text.split("\n").map((line) => line.split(": "))),
};
const answer = { role: "assistant", content: [{ type: "text", text: "Hi" }], stopReason: "stop" };
const host = {
  sync: (method, args) => ANSWERS[method](args),
  tell: (method, args) => said.push([method, args]),
  call: async (method, args, signal, update) => {
    calls.push([method, args]);
    if (args.model?.id === "broken") throw new Error("no key");
    if (method === "run_tool") return { content: [{ type: "text", text: "ran" }] };
    if (method === "stream") {
      update({ type: "text_start", contentIndex: 0 });
      update({ type: "text_delta", contentIndex: 0, delta: "Hi" });
      update({ type: "text_end", contentIndex: 0, content: "Hi" });
    }
    return answer;
  },
};
const load = (name) => require(`${folder}${name}.mjs`).default(host);
const { Type } = load("typebox");
const ai = load("pi-ai");
const agent = load("pi-coding-agent");
const tui = load("pi-tui");

const schema = Type.Object(
  {
    mode: ai.StringEnum(["fast", "slow"], { description: "How" }),
    count: Type.Optional(Type.Integer({ minimum: 1 })),
    tags: Type.Record(Type.String(), Type.Array(Type.Union([Type.Literal("x"), Type.Null()]))),
  },
  { additionalProperties: false },
);

async function streamed(id, signal) {
  const stream = ai.streamSimple({ provider: "a", id }, { messages: [] }, { signal, onPayload() {} });
  const types = [];
  for await (const event of stream) types.push(event.type);
  const { stopReason, errorMessage } = await stream.result();
  return { types, stopReason, errorMessage };
}

async function ordered() {
  const order = [];
  const wait = (name) => async () => {
    await new Promise(setImmediate);
    order.push(name);
  };
  await Promise.all(["first", "second"].map((name) => agent.withFileMutationQueue("/x", wait(name))));
  return order;
}

const bash = agent.createBashTool("/", {
  operations: { exec: async (_command, _cwd, { onData }) => (onData("far away\n"), { exitCode: 0 }) },
});
const failing = agent.createBashToolDefinition("/", {
  operations: { exec: async () => ({ exitCode: 7 }) },
});
const usage = { input: 1e6, output: 1e6, cacheRead: 0, cacheWrite: 0, cost: {} };
const thrown = async (run) => {
  try {
    return await run();
  } catch (error) {
    return error.message;
  }
};

const report = {
  schema,
  optional: [Type.IsOptional(schema.properties.count), Type.IsOptional(schema.properties.mode)],
  widths: ["a你😀", "\x1b[31mé\x1b[0m", "\t", "🇩🇪👨‍👩‍👧"].map(tui.visibleWidth),
  wrapped: tui.wrapTextWithAnsi("\x1b[4munder line\x1b[0m 你好", 6),
  cut: tui.truncateToWidth("hello world", 8, "…"),
  box: (() => {
    const box = new tui.Box(1, 0);
    box.addChild(new tui.Text("one two", 0, 0));
    return box.render(6);
  })(),
  key: [tui.Key.ctrlShift("p"), tui.matchesKey("\r", "enter")],
  head: agent.truncateHead("a\nb\nc", { maxLines: 2 }),
  tail: agent.truncateTail("first\nlast line", { maxBytes: 4 }),
  front: agent.parseFrontmatter("---\r\nname: x\r\n---\r\nbody\r\n"),
  models: [ai.getModel("b", "two"), ai.getModels("a"), ai.getProviders(), ai.getModel("c", "x") ?? null],
  cost: ai.calculateCost({ cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 } }, usage),
  stream: await streamed("one"),
  broken: await streamed("broken"),
  aborted: await streamed("broken", AbortSignal.abort()),
  completed: await ai.complete({ provider: "a", id: "one" }, { messages: [] }, { maxTokens: 5 }),
  llm: agent.convertToLlm([
    { role: "bashExecution", command: "ls", output: "", exitCode: 2, timestamp: 1 },
    { role: "bashExecution", command: "ls", excludeFromContext: true },
    { role: "custom", content: "note", timestamp: 2 },
    { role: "user", content: "hi" },
  ]),
  order: await ordered(),
  bash: await bash.execute("1", { command: "ls" }),
  exit: await thrown(() => failing.execute("1", { command: "ls" })),
  read: [
    agent.createReadTool("/w").name,
    await agent.createReadTool("/w").execute("1", { path: "x" }),
    await thrown(() => agent.createReadTool("/w", { operations: {} })),
  ],
  missing: [typeof agent.SessionManager, typeof agent.SessionManager, tui.then ?? null],
  subclass: new (class extends tui.Container {})().render(3),
};
console.log(JSON.stringify({ ...report, said, calls }));
