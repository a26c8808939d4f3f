// A conversation through pi's own RpcClient. Words: the folder of its package, the working folder.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [home, cwd] = process.argv.slice(2);
const { RpcClient } = await import(pathToFileURL(join(home, "dist/modes/rpc/rpc-client.js")).href);
const cliPath = fileURLToPath(new URL("start.mjs", import.meta.url));
const report = {};
const events = [];
const waiting = [];

const client = new RpcClient({ cliPath, cwd });
client.onEvent((event) => {
  events.push(event.type);
  for (const one of waiting.splice(0)) one.kind === event.type ? one.resolve() : waiting.push(one);
});
const told = (kind) => new Promise((resolve) => waiting.push({ kind, resolve }));
const since = (start) => events.slice(start);

await client.start();
report.state = await client.getState();
report.models = (await client.getAvailableModels()).map((model) => `${model.provider}/${model.id}`);

const collected = await client.promptAndWait("Write hello.txt", undefined, 10_000);
report.first = collected.map((event) => event.type);
report.text = collected.findLast((event) => event.type === "agent_end").messages.at(-1).content[0].text;

// At once, as hosts do that know no other end than this one.
let start = events.length;
let started = told("tool_execution_start");
let idle = client.waitForIdle(10_000);
await client.prompt("Wait for the gate");
await started;
await client.steer("Never mind the rest");
await writeFile(join(cwd, "gate"), "open\n");
await idle;
report.steered = { events: since(start), text: await client.getLastAssistantText() };

start = events.length;
started = told("tool_execution_start");
idle = client.waitForIdle(10_000);
await client.prompt("Sleep");
await started;
await client.abort();
await idle;
report.aborted = { events: since(start), streaming: (await client.getState()).isStreaming };

report.calls = {};
const call = async (name, ...words) => (report.calls[name] = (await client[name](...words)) ?? null);
await call("bash", "echo beside");
await call("followUp", "Later");
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
await call("setSessionName", "tried");
await call("getSessionStats");
await call("getCommands");
await call("getForkMessages");
await call("getMessages");
await call("exportHtml", join(cwd, "page.html"));
for (const name of ["clearQueue", "getEntries", "getTree", "getAvailableThinkingLevels"]) {
  if (name in client) await call(name);
}
const session = (await client.getState()).sessionFile;
await call("clone");
await call("fork", report.calls.getForkMessages[0].entryId);
await call("newSession");
await call("switchSession", session);
report.end = await client.getState();
await client.stop();
process.stdout.write(`${JSON.stringify(report)}\n`);
