// Loads extensions: by jiti as pi does, or without it by Node's own removal of types.
// Packages of pi are answered by the modules in `modules/`.
import fs, { existsSync } from "node:fs";
import module, { createRequire } from "node:module";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
const folder = fileURLToPath(new URL("./modules/", import.meta.url));
const PI = ["pi-ai", "pi-agent-core", "pi-coding-agent", "pi-tui", "pi-ai/oauth", "pi-ai/compat"];
const TYPEBOX = ["typebox", "typebox/value", "typebox/compile"];
// Specifier -> name of the file, in which "/" is "-".
const SPECIFIERS = new Map([
  ...["@earendil-works", "@mariozechner"].flatMap((scope) =>
    PI.map((name) => [`${scope}/${name}`, name.replace("/", "-")]),
  ),
  ...TYPEBOX.flatMap((name) => [
    [name, name.replace("/", "-")],
    [`@sinclair/${name}`, name.replace("/", "-")],
  ]),
]);

const SPECIFIER = /\bfrom\s*["']([^"']+)["']|^\s*import\s*["']([^"']+)["']/gm;
const RELIES_ON_JITI = /\brequire\b|__dirname|__filename|\bimport\s*\(|\bmodule\.|\bexports\b/;
const CODE = new Set([".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".json"]);

export class Loader {
  constructor(bridge) {
    this.bridge = bridge;
    // Files of code that were read since Ludolf last asked.
    this.files = new Set();
    module.registerHooks?.({ load: (url, context, next) => this.note(url, () => next(url, context)) });
    this.made = new Map();
    this.epoch = 0;
    this.factories = new Map();
    this.virtual = {};
    for (const name of SPECIFIERS.keys()) {
      const get = () => this.module(SPECIFIERS.get(name));
      Object.defineProperty(this.virtual, name, { get, enumerable: true });
    }
  }

  // Imports every file again from now on.
  forget() {
    this.epoch += 1;
    this.jiti = undefined;
    this.factories.clear();
  }

  note(url, read) {
    if (url.startsWith("file:")) this.files.add(fileURLToPath(url.replace(/\?.*$/, "")));
    return read();
  }

  // Returns the files that were read, and forgets them.
  takeFiles() {
    const files = [...this.files];
    this.files.clear();
    return files;
  }

  async load(path) {
    if (!this.factories.has(path)) {
      const imported = await this.import(path);
      this.factories.set(path, imported);
    }
    return this.factories.get(path);
  }

  async import(path) {
    const { jiti: place, cache } = this.bridge.info;
    if (!place) return this.importByNode(path);
    if (module.registerHooks && this.standsAlone(path)) {
      try {
        return await this.importByNode(path);
      } catch (error) {
        // Syntax that Node does not convert; no code has run.
        if (!/TYPESCRIPT_SYNTAX/.test(error?.code)) throw error;
      }
    }
    this.jiti ??= require(place).createJiti(import.meta.url, {
      moduleCache: false,
      fsCache: cache ? join(cache, "jiti") : true,
      tryNative: false,
      virtualModules: this.virtual,
    });
    return this.watched(() => this.jiti.import(path, { default: true }));
  }

  async importByNode(path) {
    const { nativeImport } = await import("./native.mjs");
    const { virtual, epoch } = this;
    const { cache } = this.bridge.info;
    const note = (file) => this.files.add(file);
    return nativeImport(path, { virtual, epoch, note, cache: cache && join(cache, "typed") });
  }

  // Whether a file imports nothing but Node's and pi's modules: both loaders then do the same, and
  // jiti, which costs more, is not needed.
  standsAlone(path) {
    const text = fs.readFileSync(path, "utf8");
    if (!/\.(ts|mts|mjs)$/.test(path) || RELIES_ON_JITI.test(text)) return false;
    return [...text.matchAll(SPECIFIER)].every(
      ([, from, bare]) => (from ?? bare) in this.virtual || module.isBuiltin(from ?? bare),
    );
  }

  // jiti reads files itself.
  async watched(work) {
    const { readFileSync } = fs;
    fs.readFileSync = (file, ...more) => {
      if (typeof file === "string" && CODE.has(extname(file))) this.files.add(file);
      return readFileSync(file, ...more);
    };
    try {
      return await work();
    } finally {
      fs.readFileSync = readFileSync;
    }
  }

  // The exports of one of our modules, made when it is first used.
  module(name) {
    if (!this.made.has(name)) {
      const file = join(folder, `${name}.mjs`);
      const exports = existsSync(file) ? require(file).default(this.bridge.host) : {};
      this.made.set(name, exports);
    }
    return this.made.get(name);
  }

  streams() {
    return this.module("pi-ai");
  }
}
