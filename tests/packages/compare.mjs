// Compares our modules with the real ones on random inputs: node compare.mjs FOLDER_OF_PI ROUNDS.
// Prints JSON: for each function the number of comparisons and the first differences.
import { createRequire } from "node:module";
import { join } from "node:path";

const [pi, rounds] = [process.argv[2], Number(process.argv[3])];
const require = createRequire(join(pi, "package.json"));
const real = (path) => require(path === "typebox" ? path : join(pi, "node_modules", path));
const ours = async (name) => {
  const folder = new URL("../../src/ludolf/pi_host/modules/", import.meta.url);
  const host = { sync: () => [], call: async () => ({}), tell: () => {} };
  return (await import(new URL(`${name}.mjs`, folder))).default(host);
};

let seed = 1;
const random = (count) => {
  seed = (seed * 1103515245 + 12345) & 0x7fffffff;
  return (seed >> 8) % count;
};
const pick = (list) => list[random(list.length)];
const many = (count, make) => Array.from({ length: random(count) }, make);

const report = {};
function compare(name, args, theirs, own) {
  const entry = (report[name] ??= { count: 0, differences: 0, examples: [] });
  const [expected, found] = [theirs, own].map((call) => JSON.stringify(call(...args)));
  entry.count += 1;
  if (expected === found) return;
  entry.differences += 1;
  if (entry.examples.length < 3) entry.examples.push({ args, expected, found });
}

// ---------------------------------------------------------------- text

const PIECES = [
  ...["a", "bc", "hello", "world", " ", "  ", "   ", "\n", "\t", "-", ".", "，", "\r\n", "\u200b"],
  ...["你", "好世界", "한국", "カナ", "é", "e\u0301", "😀", "👨‍👩‍👧", "🇩🇪", "❤️", "⚠", "กำ", "क्षि"],
  ...["\x1b[31m", "\x1b[0m", "\x1b[1m", "\x1b[4m", "\x1b[24m", "\x1b[39m", "\x1b[48;5;12m"],
  ...["\x1b[38;2;1;2;3m", "\x1b[49m", "\x1b[1;33m", "\x1b[22m", "longwordlongword"],
  ...["\x1b]8;;http://x\x07", "\x1b]8;;\x07"],
];
const text = () => many(13, () => pick(PIECES)).join("");

const tui = { theirs: real("@earendil-works/pi-tui/dist/index.js"), own: await ours("pi-tui") };
const agent = {
  theirs: real("@earendil-works/pi-coding-agent/dist/index.js"),
  own: await ours("pi-coding-agent"),
};
const both = (pair, name, ...args) => compare(name, args, pair.theirs[name], pair.own[name]);

function boxed(module, [line, width, x, y]) {
  const box = new module.Box(x, y, (content) => `<${content}>`);
  box.addChild(new module.Text(line, x, y));
  box.addChild(new module.Spacer(y));
  box.addChild(new module.TruncatedText(line, x, 0));
  return box.render(width);
}

for (let round = 0; round < rounds; round += 1) {
  const line = text();
  const width = 1 + random(14);
  both(tui, "visibleWidth", line);
  both(tui, "wrapTextWithAnsi", line, width);
  both(tui, "truncateToWidth", line, width, pick(["...", "…", "", ">>"]), random(2) === 1);
  both(tui, "sliceByColumn", line.replaceAll("\n", ""), random(6), random(8), random(2) === 1);
  both(tui, "stripTerminalSequences", line);
  const box = [[line, 4 + width, random(3), random(2)]];
  compare("Box", box, (args) => boxed(tui.theirs, args), (args) => boxed(tui.own, args));
  const limits = { ...(random(3) && { maxLines: 1 + random(5) }), ...(random(3) && { maxBytes: 1 + random(60) }) };
  both(agent, "truncateHead", line, limits);
  both(agent, "truncateTail", line, limits);
  both(agent, "truncateLine", line, random(10));
  both(agent, "formatSize", random(3) * random(1e6) * random(1000));
  both(agent, "truncateToVisualLines", line, 1 + random(3), 4 + width, random(2));
}
const items = ["abc", "a_b", "foo/bar", "barfoo", "src/main.ts", "x", "README.md", "a-b-c"];
for (const query of ["", "ab", "foo bar", "x", "src", "rm", "bc"]) {
  const filter = (module) => (words) => module.fuzzyFilter(items, words, (item) => item);
  compare("fuzzyFilter", [query], filter(tui.theirs), filter(tui.own));
}

// ---------------------------------------------------------------- schemas

function schema(T, depth) {
  const options = () => (random(3) ? undefined : { description: `d${random(9)}` });
  const inner = () => schema(T, depth - 1);
  const object = () => {
    const properties = {};
    for (let left = random(4); left > 0; left -= 1) {
      const value = inner();
      properties[`k${random(5)}`] = random(3) ? value : T.Optional(value);
    }
    return T.Object(properties, random(2) ? undefined : { additionalProperties: false });
  };
  const literals = () => T.Union(["a", "b", "c"].slice(0, 1 + random(3)).map((one) => T.Literal(one)));
  const simple = [
    () => T.String({ minLength: 1, ...options() }), () => T.Number(options()),
    () => T.Integer(options()), () => T.Boolean(options()), () => T.Null(options()),
    () => T.Any(options()), () => T.Unknown(options()), () => T.Never(), () => T.Undefined(),
    () => T.Literal(pick(["x", 2, true]), options()), () => T.Enum(["p", "q"], options()),
    () => T.Enum({ A: "a", B: 2 }), () => T.Unsafe({ type: "string", enum: ["z"] }),
    () => T.Ref("X"), () => T.TemplateLiteral("a${string}"),
  ];
  const nested = [
    object, object, object, () => T.Array(inner(), options()), () => T.Union([inner(), inner()]),
    () => T.Record(T.String(), inner(), options()), () => T.Record(literals(), inner()),
    () => T.Record(pick([T.Number(), T.Integer(), T.String({ pattern: "^x" })]), inner()),
    () => T.Tuple([inner(), inner()]), () => T.Partial(object()), () => T.Required(object()),
    () => T.Pick(object(), ["k1", "k2"]), () => T.Omit(object(), ["k1"]),
    () => T.Intersect([object(), object()], options()), () => T.Readonly(inner()),
    () => T.KeyOf(T.Object({ a: inner(), b: inner() })), () => T.Index(T.Object({ a: T.String() }), ["a"]),
    () => T.Exclude(literals(), T.Literal("b")), () => T.Extract(literals(), T.Literal("b")),
    () => T.NonNullable(T.Union([T.String(), T.Null()])),
  ];
  return pick(depth > 0 ? [...simple.slice(0, 6), ...nested] : simple)();
}

// Hidden marks count too.
function whole(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(whole);
  const names = Object.getOwnPropertyNames(value).sort();
  return Object.fromEntries(names.map((name) => [name, whole(value[name])]));
}

const types = [real("typebox").Type, (await ours("typebox")).Type];
for (let round = 0; round < rounds; round += 1) {
  const start = seed;
  const [expected, found] = types.map((T) => {
    seed = start;
    const made = schema(T, 3);
    return [JSON.stringify(made), JSON.stringify(whole(made))];
  });
  compare("Type", [], () => expected, () => found);
}

// ---------------------------------------------------------------- names

const MODULES = {
  typebox: "typebox",
  "pi-ai-compat": "@earendil-works/pi-ai/dist/compat.js",
  "pi-tui": "@earendil-works/pi-tui/dist/index.js",
  "pi-coding-agent": "@earendil-works/pi-coding-agent/dist/index.js",
  "pi-agent-core": "@earendil-works/pi-agent-core/dist/index.js",
};
for (const [name, path] of Object.entries(MODULES)) {
  const [theirs, own] = [real(path), await ours(name)];
  for (const key of Object.keys(own)) {
    // Kept for packages that were written for older versions of pi.
    if (["getEditorKeybindings", "Composite"].includes(key)) continue;
    compare("types of names", [name, key], () => typeof theirs[key], () => typeof own[key]);
  }
}
console.log(JSON.stringify(report));
