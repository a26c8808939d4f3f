// Import TypeScript by Node itself: types are removed, names of missing exports are undefined.
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import module from "node:module";
import { extname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const SCHEME = "ludolf-module:";
const ENDS = ["", ".ts", ".mts", ".js", ".mjs", "/index.ts", "/index.js"];
const TYPED = new Set([".ts", ".mts", ".cts", ".tsx"]);
const NAMED = /^import\s+(?:([\w$]+)\s*,\s*)?\{([^}]*)\}\s*from\s*(["'][^"']+["']);?/gm;
const shared = Symbol.for("ludolf.modules");
let registered = false;
let cache;
let note;

// `options`: the modules of pi's packages, a number that changes when files are read again, a
// folder that keeps the JavaScript of TypeScript files, and a function that gets their paths.
export async function nativeImport(path, options) {
  if (typeof module.registerHooks !== "function") {
    throw new Error("this needs jiti (ludolf install --pi-loader) or Node 22.15 or newer");
  }
  globalThis[shared] = options.virtual;
  ({ cache, note } = options);
  if (!registered) module.registerHooks({ resolve, load });
  registered = true;
  const { href } = pathToFileURL(path);
  const loaded = await import(`${href}?epoch=${options.epoch}`);
  return loaded.default?.default ?? loaded.default;
}

function resolve(specifier, context, next) {
  const epoch = /\?epoch=\d+$/.exec(context.parentURL ?? "")?.[0];
  if (specifier in globalThis[shared]) return ours(specifier, epoch, () => next(specifier, context));
  if (epoch === undefined || !/^\.{0,2}\//.test(specifier)) return next(specifier, context);
  const base = new URL(specifier, context.parentURL);
  base.search = "";
  const found = candidates(fileURLToPath(base)).find((file) => extname(file) && existsSync(file));
  if (found === undefined) return next(specifier, context);
  return { url: pathToFileURL(found).href + epoch, shortCircuit: true };
}

// Installed packages, such as a real pi, take what is installed next to them, else our module.
function ours(specifier, epoch, installed) {
  const own = { url: SCHEME + specifier, shortCircuit: true };
  if (epoch !== undefined) return own;
  try {
    return installed();
  } catch {
    return own;
  }
}

function candidates(path) {
  const typed = /\.[cm]?js$/.test(path) ? [path.replace(/js$/, "ts")] : [];
  return [...ENDS.map((end) => path + end), ...typed];
}

function load(url, context, next) {
  if (url.startsWith(SCHEME)) {
    const name = JSON.stringify(url.slice(SCHEME.length));
    const value = `globalThis[Symbol.for("ludolf.modules")][${name}]`;
    return { format: "module", source: moduleText(value, url), shortCircuit: true };
  }
  if (!/\?epoch=\d+$/.test(url)) return next(url, context);
  const path = fileURLToPath(url.replace(/\?epoch=\d+$/, ""));
  if (!TYPED.has(extname(path)) && extname(path) !== ".js" && extname(path) !== ".mjs") {
    return next(url, context);
  }
  note(path);
  const text = readFileSync(path, "utf8");
  const isTyped = TYPED.has(extname(path));
  const source = isTyped ? withoutTypes(text) : text;
  if (!isTyped && !/^\s*(import|export)\b/m.test(text)) return next(url, context);
  return { format: "module", source: tolerant(source), shortCircuit: true };
}

function withoutTypes(text) {
  const strip = () => module.stripTypeScriptTypes(text, { mode: "transform" });
  if (!cache) return strip();
  const named = `${process.version}\n${text}`;
  const key = `${text.length}-${fingerprint(named, 1)}-${fingerprint(named, 2)}`;
  const file = join(cache, `${key}.mjs`);
  try {
    return readFileSync(file, "utf8");
  } catch {
    const source = strip();
    keep(file, source);
    return source;
  }
}

// 64 bits of a text, without the cost of loading cryptography.
function fingerprint(text, seed) {
  let a = 0x9e3779b1 ^ seed;
  let b = 0x85ebca77 ^ seed;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    a = Math.imul(a ^ code, 0x9e3779b1);
    b = Math.imul(b ^ code, 0xc2b2ae3d);
    a ^= b >>> 15;
  }
  return (a >>> 0).toString(16) + (b >>> 0).toString(16);
}

function keep(file, source) {
  try {
    mkdirSync(cache, { recursive: true });
    writeFileSync(`${file}.${process.pid}`, source);
    renameSync(`${file}.${process.pid}`, file);
  } catch {
    // the folder cannot be written: types are removed again next time
  }
}

function moduleText(value, url) {
  const names = Object.keys(globalThis[shared][url.slice(SCHEME.length)]);
  const exported = names.filter((name) => name !== "default" && /^[\w$]+$/.test(name));
  return `const m = ${value};\nexport default m;\n${exported
    .map((name, n) => `const v${n} = m.${name};\nexport { v${n} as ${name} };`)
    .join("\n")}`;
}

// A name that a module does not export is undefined instead of an error; one that the code does
// not use, such as that of a type, is not imported.
function tolerant(source) {
  const code = source.replace(NAMED, "");
  let number = 0;
  return source.replace(NAMED, (_text, whole, names, from) => {
    number += 1;
    const space = `ludolf$${number}`;
    const parts = names.split(",").filter((name) => isUsed(name, code)).map(destructured);
    const rest = `const { ${parts.join(", ")} } = ${space};`;
    const isOurs = from.slice(1, -1) in globalThis[shared];
    const first = whole ? `const ${whole} = ${space}${isOurs ? "" : ".default"}; ` : "";
    if (isOurs) return `import ${space} from ${from}; ${first}${rest}`;
    return `import * as ${space} from ${from}; ${first}${rest}`;
  });
}

const isUsed = (name, code) => {
  const local = name.trim().split(/\s+as\s+/).at(-1);
  if (local === "") return false;
  // Not a member of something else, but perhaps spread.
  return new RegExp(`(?<![\\w$])(?<![^.]\\.)${local.replace("$", "\\$")}(?![\\w$])`).test(code);
};

const destructured = (name) => name.trim().replace(/\s+as\s+/, ": ");
