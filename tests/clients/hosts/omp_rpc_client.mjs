// A conversation through oh-my-pi's own RpcClient, run by Bun. Words: the folder in which it is
// installed, the working folder.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const [home, cwd] = process.argv.slice(2);
const place = "node_modules/@oh-my-pi/pi-coding-agent/src/modes/rpc/rpc-client.ts";
const { RpcClient, defineRpcClientTool } = await import(join(home, place));
const cliPath = fileURLToPath(new URL("start.mjs", import.meta.url));
const report = { lent: [] };
const events = [];
const waiting = [];

const tool = defineRpcClientTool({
  name: "lend",
  description: "Lends a word of the host",
  parameters: { type: "object", properties: { word: { type: "string" } }, required: ["word"] },
  execute: async (params, context) => {
    context.sendUpdate("soon");
    report.lent.push(params.word);
    return `lent ${params.word}`;
  },
});
const client = new RpcClient({ cliPath, cwd, model: "claude/large", customTools: [tool] });
client.onSessionEvent((event) => {
  events.push(event.type);
  for (const one of waiting.splice(0)) one.kind === event.type ? one.resolve() : waiting.push(one);
});
client.onAvailableCommandsUpdate((commands) => (report.commands = commands.map((one) => one.name)));
const told = (kind) => new Promise((resolve) => waiting.push({ kind, resolve }));

await client.start();
report.state = await client.getState();
report.models = (await client.getAvailableModels()).map((model) => `${model.provider}/${model.id}`);

const collected = await client.promptAndWait("Write hello.txt", undefined, 10_000);
report.first = collected.map((event) => event.type);
report.text = collected.at(-1).messages.at(-1).content[0].text;

// At once, as hosts do that know no other end than this one.
let start = events.length;
let started = told("tool_execution_start");
let idle = client.waitForIdle(10_000);
await client.prompt("Wait for the gate");
await started;
await client.steer("Never mind the rest");
await writeFile(join(cwd, "gate"), "open\n");
await idle;
report.steered = { events: events.slice(start), text: await client.getLastAssistantText() };

start = events.length;
started = told("tool_execution_start");
idle = client.waitForIdle(10_000);
await client.prompt("Sleep");
await started;
await client.abort();
await idle;
report.aborted = { events: events.slice(start), streaming: (await client.getState()).isStreaming };

await client.promptAndWait("Borrow a word", undefined, 10_000);
report.borrowed = await client.getLastAssistantText();

report.calls = {};
const call = async (name, ...words) => (report.calls[name] = (await client[name](...words)) ?? null);
await call("bash", "echo beside");
await call("compact", "Be brief");
await call("setModel", "chat", "large");
await call("cycleModel");
await call("setThinkingLevel", "low");
await call("cycleThinkingLevel");
await call("setSteeringMode", "all");
await call("setFollowUpMode", "one-at-a-time");
await call("setAutoCompaction", false);
await call("setAutoRetry", true);
await call("abortRetry");
await call("abortBash");
await call("getSessionStats");
await call("getAvailableCommands");
await call("getBranchMessages");
await call("getMessagesPage", { limit: 1 });
await call("getMessages");
await call("getLoginProviders");
await call("setCustomTools", []);
await call("exportHtml", join(cwd, "page.html"));
for (const name of ["getEntries", "getTree", "getAvailableThinkingLevels", "getSubagents"]) {
  if (name in client) await call(name);
}
const session = (await client.getState()).sessionFile;
await call("branch", report.calls.getBranchMessages[0].entryId);
await call("newSession");
await call("switchSession", session);
report.end = await client.getState();
await client.stop();
process.stdout.write(`${JSON.stringify(report)}\n`);
