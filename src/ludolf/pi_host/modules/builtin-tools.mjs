// `create…Tool` and `create…ToolDefinition`: Ludolf's built-in tools, run by Ludolf.
import { realModule } from "./library.mjs";
import { createLocalBashOperations, runShell } from "./shell.mjs";

const NAMES = ["read", "bash", "edit", "write", "grep", "find", "ls"];
const CODING = ["read", "bash", "edit", "write"];
const READ_ONLY = ["read", "grep", "find", "ls"];
const title = (name) => name[0].toUpperCase() + name.slice(1);

export function makeTools(host) {
  const known = new Map();
  const definitionOf = (name) => {
    if (!known.has(name)) known.set(name, host.sync("builtin_tool", { name }));
    return structuredClone(known.get(name));
  };
  const make = (name, cwd, options = {}) => {
    if (options.operations && name !== "bash") return withOperations(name, cwd, options);
    const run = name === "bash" && isChanged(options) ? shell(options) : remote(host, name);
    return {
      ...definitionOf(name),
      execute: (_id, args, signal, onUpdate, ctx) =>
        run(args, { cwd: ctx?.cwd ?? cwd, signal, onUpdate }),
    };
  };
  const exports = {};
  for (const name of NAMES) {
    exports[`create${title(name)}Tool`] = (cwd, options) => make(name, cwd, options);
    exports[`create${title(name)}ToolDefinition`] = exports[`create${title(name)}Tool`];
  }
  const all = (names) => (cwd, options) => names.map((name) => make(name, cwd, options?.[name]));
  exports.createCodingTools = all(CODING);
  exports.createReadOnlyTools = all(READ_ONLY);
  return exports;
}

const remote =
  (host, name) =>
  (args, { cwd, signal, onUpdate }) =>
    host.call("run_tool", { name, cwd, args }, signal, onUpdate);

const isChanged = ({ operations, spawnHook, commandPrefix, shellPath }) =>
  Boolean(operations || spawnHook || commandPrefix || shellPath);

function shell({ operations, spawnHook, commandPrefix, shellPath }) {
  return ({ command, timeout }, { cwd, signal, onUpdate }) => {
    const text = commandPrefix ? `${commandPrefix}\n${command}` : command;
    const given = { command: text, cwd, env: { ...process.env } };
    const changed = spawnHook ? spawnHook(given) : given;
    const used = operations ?? createLocalBashOperations({ shellPath });
    return runShell({ ...changed, timeout, operations: used }, signal, onUpdate);
  };
}

// Operations of file tools, for instance over SSH, run in pi's own tools.
function withOperations(name, cwd, options) {
  const real = realModule("pi-coding-agent");
  if (real === undefined) {
    throw new Error(
      `create${title(name)}Tool with operations needs pi's library: ludolf install --pi-library`,
    );
  }
  return real[`create${title(name)}ToolDefinition`](cwd, options);
}
