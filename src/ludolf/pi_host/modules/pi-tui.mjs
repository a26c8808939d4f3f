// `pi-tui`: text functions for real; components and keys without a terminal.
import * as columns from "./columns.mjs";
import * as components from "./components.mjs";
import { namespace } from "./namespace.mjs";
import { wrapTextWithAnsi } from "./wrapping.mjs";

const NAMED = ["escape", "esc", "enter", "return", "tab", "space", "backspace", "delete", "insert"];
const MOVES = ["clear", "home", "end", "pageUp", "pageDown", "up", "down", "left", "right"];
const SIGNS = {
  backtick: "`", hyphen: "-", equals: "=", leftbracket: "[", rightbracket: "]", backslash: "\\",
  semicolon: ";", quote: "'", comma: ",", period: ".", slash: "/", exclamation: "!", at: "@",
  hash: "#", dollar: "$", percent: "%", caret: "^", ampersand: "&", asterisk: "*", leftparen: "(",
  rightparen: ")", underscore: "_", plus: "+", pipe: "|", tilde: "~", leftbrace: "{",
  rightbrace: "}", colon: ":", lessthan: "<", greaterthan: ">", question: "?",
};
const MODIFIERS = ["ctrl", "shift", "alt", "super"];

function makeKey() {
  const keys = Object.fromEntries([...NAMED, ...MOVES].map((name) => [name, name]));
  for (let number = 1; number <= 12; number += 1) keys[`f${number}`] = `f${number}`;
  Object.assign(keys, SIGNS);
  for (const mask of Array(2 ** MODIFIERS.length).keys()) {
    const held = MODIFIERS.filter((_, at) => mask & (1 << at));
    for (const order of orders(held)) {
      const name = order[0] + order.slice(1).map((one) => one[0].toUpperCase() + one.slice(1)).join("");
      keys[name] = (key) => `${order.join("+")}+${key}`;
    }
  }
  return keys;
}

function orders(list) {
  if (list.length < 2) return list.length ? [list] : [];
  return list.flatMap((one) =>
    orders(list.filter((other) => other !== one)).map((rest) => [one, ...rest]),
  );
}

// Each character of the query must occur in order; a lower score is a better match.
export function fuzzyMatch(query, text) {
  const wanted = query.toLowerCase();
  const given = text.toLowerCase();
  let score = 0;
  let last = -1;
  let run = 0;
  for (const char of wanted) {
    const at = given.indexOf(char, last + 1);
    if (at < 0) return { matches: false, score: 0 };
    const follows = at === last + 1;
    run = follows ? run + 1 : 0;
    score += follows ? -5 * run : last < 0 ? 0 : 2 * (at - last - 1);
    if (at === 0 || /[\s\-_./:]/.test(given[at - 1])) score -= 10;
    score += at * 0.1;
    last = at;
  }
  return { matches: true, score: wanted === given ? score - 100 : score };
}

export function fuzzyFilter(items, query, getText) {
  const words = query.trim().split(/\s+/).filter(Boolean);
  if (!words.length) return items;
  const scored = items.flatMap((item) => {
    const matches = words.map((word) => fuzzyMatch(word, getText(item)));
    if (!matches.every((match) => match.matches)) return [];
    return [{ item, score: matches.reduce((sum, match) => sum + match.score, 0) }];
  });
  return scored.sort((a, b) => a.score - b.score).map(({ item }) => item);
}

// No key is ever pressed here.
class KeybindingsManager {
  matches() {
    return false;
  }

  getKeys() {
    return [];
  }

  getDefinition() {
    return undefined;
  }

  getConfig() {
    return {};
  }

  getResolvedBindings() {
    return {};
  }

  getUserBindings() {
    return {};
  }

  setUserBindings() {}

  getConflicts() {
    return [];
  }
}

const NO_TERMINAL = { images: null, trueColor: false, hyperlinks: false };

export function ownExports() {
  const keybindings = new KeybindingsManager();
  const no = () => false;
  const nothing = () => undefined;
  return {
    visibleWidth: columns.visibleWidth,
    truncateToWidth: columns.truncateToWidth,
    sliceByColumn: columns.sliceByColumn,
    stripTerminalSequences: columns.stripSequences,
    wrapTextWithAnsi,
    ...components,
    fuzzyMatch,
    fuzzyFilter,
    Key: makeKey(),
    KeybindingsManager,
    getKeybindings: () => keybindings,
    setKeybindings: nothing,
    getEditorKeybindings: () => keybindings,
    matchesKey: no,
    parseKey: nothing,
    isKeyRelease: no,
    isKeyRepeat: no,
    isKittyProtocolActive: no,
    decodeKittyPrintable: nothing,
    isFocusable: (component) => component !== null && "focused" in (component ?? {}),
    CURSOR_MARKER: "\x1b_pi:c\x07",
    getCapabilities: () => ({ ...NO_TERMINAL }),
    allocateImageId: () => 1 + Math.floor(Math.random() * 0xfffffffe),
    deleteKittyImage: () => "",
    deleteAllKittyImages: () => "",
    hyperlink: (text, url) => `\x1b]8;;${url}\x1b\\${text}\x1b]8;;\x1b\\`,
  };
}

export default (host) => {
  const { Component, ...exports } = ownExports();
  return namespace("pi-tui", exports, host);
};
