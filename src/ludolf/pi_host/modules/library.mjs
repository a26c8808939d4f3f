// Finds a real pi and loads one of its packages; nothing is read before the first question.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";

const require = createRequire(import.meta.url);
const MAIN = "pi-coding-agent";
const SCOPES = ["@earendil-works", "@mariozechner"];
let found;
const loaded = new Map();

export function agentDir(env = process.env) {
  const named = env.LUDOLF_DIR || env.LUDOLF_CODING_AGENT_DIR || env.PI_CODING_AGENT_DIR;
  if (!named) return join(homedir(), ".pi", "agent");
  return resolve(named.replace(/^~(?=$|\/)/, homedir()));
}

// The exports of a package of the real pi, such as `pi-ai/compat`; undefined without a pi.
export function realModule(name) {
  if (!loaded.has(name)) {
    const file = fileOf(name);
    loaded.set(name, file === undefined ? undefined : require(file));
  }
  return loaded.get(name);
}

// The folder of the real `pi-coding-agent`, or null.
export function realPi(env = process.env) {
  found ??= { folder: places(env).find(isPi) ?? null };
  return found.folder;
}

function* places(env) {
  if (env.PI_PACKAGE_DIR) yield env.PI_PACKAGE_DIR;
  for (const folder of (env.PATH ?? "").split(delimiter)) {
    const program = join(folder, "pi");
    if (folder && existsSync(program)) yield* above(realpathSync(program));
  }
  for (const scope of SCOPES) {
    yield join(agentDir(env), "ludolf", "node", "node_modules", scope, MAIN);
  }
  const root = globalModules(env);
  if (root) yield* SCOPES.map((scope) => join(root, scope, MAIN));
}

// The folder of `npm install -g`; undefined without npm.
function globalModules(env) {
  try {
    const options = { env, encoding: "utf8", timeout: 10_000, stdio: ["ignore", "pipe", "ignore"] };
    return execFileSync("npm", ["root", "-g"], options).trim() || undefined;
  } catch {
    return undefined;
  }
}

function* above(path) {
  let folder = dirname(path);
  while (dirname(folder) !== folder) {
    yield folder;
    folder = dirname(folder);
  }
}

function isPi(folder) {
  const name = manifest(folder)?.name;
  return typeof name === "string" && SCOPES.some((scope) => name === `${scope}/${MAIN}`);
}

function manifest(folder) {
  try {
    return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  } catch {
    return undefined;
  }
}

function fileOf(name) {
  const pi = realPi();
  if (pi === null) return undefined;
  const [first, ...rest] = name.split("/");
  const folder = first === MAIN ? pi : packageFolder(pi, first);
  return folder === undefined ? undefined : entry(folder, rest.join("/"));
}

// The folder of a dependency, in `node_modules` of pi or of a folder above it.
function packageFolder(pi, name) {
  const names = name.startsWith("pi-") ? SCOPES.map((scope) => `${scope}/${name}`) : [name];
  for (const folder of [pi, ...above(join(pi, "x"))]) {
    for (const one of names) {
      const place = join(folder, "node_modules", one);
      if (existsSync(join(place, "package.json"))) return place;
    }
  }
  return undefined;
}

function entry(folder, below) {
  const { exports = {}, main, module } = manifest(folder) ?? {};
  const key = below ? `./${below}` : ".";
  const target = targetOf(exports, key) ?? (below ? undefined : (module ?? main));
  const file = target === undefined ? undefined : join(folder, target);
  return file !== undefined && existsSync(file) ? file : undefined;
}

function targetOf(exports, key) {
  if (typeof exports === "string") return key === "." ? exports : undefined;
  const own = exports[key] ?? wildcard(exports, key);
  if (own === undefined || typeof own === "string") return own;
  return own.import ?? own.node ?? own.default;
}

function wildcard(exports, key) {
  for (const [pattern, target] of Object.entries(exports)) {
    const [before, after] = pattern.split("*");
    if (after === undefined || !key.startsWith(before) || !key.endsWith(after)) continue;
    const middle = key.slice(before.length, key.length - after.length);
    const path = targetOf({ ".": target }, ".");
    return path?.replaceAll("*", middle);
  }
  return undefined;
}
