// Loads extensions: by jiti as pi does, or without it by Node's own removal of types.
// Packages of pi are answered by the modules in `modules/`.
import { createRequire } from "node:module";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { nativeImport } from "./native.mjs";

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

export class Loader {
  constructor(bridge) {
    this.bridge = bridge;
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
    this.factories.clear();
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
    if (!place) return nativeImport(path, this.virtual, this.epoch, cache && join(cache, "typed"));
    const { createJiti } = await import(pathToFileURL(place).href);
    const jiti = createJiti(import.meta.url, {
      moduleCache: false,
      fsCache: cache ? join(cache, "jiti") : true,
      tryNative: false,
      virtualModules: this.virtual,
    });
    return jiti.import(path, { default: true });
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
