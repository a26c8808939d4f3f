// `pi-coding-agent`: paths, limits, tools and inert components; the rest comes from a real pi.
import { realpathSync } from "node:fs";
import { basename, extname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { makeTools } from "./builtin-tools.mjs";
import { Container, Editor, Text } from "./components.mjs";
import { convertToLlm } from "./conversation.mjs";
import { agentDir, realPi } from "./library.mjs";
import { namespace } from "./namespace.mjs";
import { createLocalBashOperations, getShellConfig } from "./shell.mjs";
import * as truncation from "./truncation.mjs";

// The version whose interface these modules have.
export const VERSION = "0.87.1";
const HERE = fileURLToPath(new URL("..", import.meta.url));
const TOOLS = ["bash", "read", "edit", "write", "grep", "find", "ls", "powerShell"];
const INERT = [
  ...["ArminComponent", "AssistantMessageComponent", "BashExecutionComponent"],
  ...["BranchSummaryMessageComponent", "CompactionSummaryMessageComponent"],
  ...["CustomMessageComponent", "ExtensionEditorComponent", "ExtensionInputComponent"],
  ...["ExtensionSelectorComponent", "FooterComponent", "LoginDialogComponent"],
  ...["ModelSelectorComponent", "OAuthSelectorComponent", "SessionSelectorComponent"],
  ...["SettingsSelectorComponent", "ShowImagesSelectorComponent", "ThemeSelectorComponent"],
  ...["SkillInvocationMessageComponent", "ThinkingSelectorComponent", "ToolExecutionComponent"],
  ...["TreeSelectorComponent", "UserMessageComponent", "UserMessageSelectorComponent"],
];
const KEYS = {
  "tui.select.up": "up",
  "tui.select.down": "down",
  "tui.select.confirm": "enter",
  "tui.select.cancel": "escape/ctrl+c",
  "tui.input.submit": "enter",
  "tui.input.newLine": "shift+enter",
  "app.interrupt": "escape",
  "app.clear": "ctrl+c",
  "app.exit": "ctrl+d",
  "app.tools.expand": "ctrl+o",
  "app.thinking.cycle": "shift+tab",
};
const LANGUAGES = {
  ts: "typescript", tsx: "typescript", js: "javascript", jsx: "javascript", mjs: "javascript",
  cjs: "javascript", py: "python", rb: "ruby", rs: "rust", go: "go", java: "java", kt: "kotlin",
  swift: "swift", c: "c", h: "c", cpp: "cpp", cc: "cpp", hpp: "cpp", cs: "csharp", php: "php",
  sh: "bash", bash: "bash", zsh: "bash", fish: "fish", ps1: "powershell", sql: "sql", html: "html",
  htm: "html", css: "css", scss: "scss", sass: "sass", less: "less", json: "json", yaml: "yaml",
  yml: "yaml", toml: "toml", xml: "xml", md: "markdown", markdown: "markdown", lua: "lua", r: "r",
  scala: "scala", clj: "clojure", ex: "elixir", exs: "elixir", erl: "erlang", hs: "haskell",
  ml: "ocaml", vim: "vim", graphql: "graphql", proto: "protobuf", tf: "hcl", hcl: "hcl",
  dockerfile: "dockerfile", makefile: "makefile", cmake: "cmake",
};
const plain = (text) => text;

function getLanguageFromPath(path) {
  const end = extname(path).slice(1) || basename(path);
  return LANGUAGES[end.toLowerCase()];
}

function makePaths() {
  const packageDir = () => realPi() ?? HERE;
  return {
    VERSION,
    CONFIG_DIR_NAME: ".pi",
    getAgentDir: () => agentDir(),
    getPackageDir: packageDir,
    getReadmePath: () => join(packageDir(), "README.md"),
    getDocsPath: () => join(packageDir(), "docs"),
    getExamplesPath: () => join(packageDir(), "examples"),
    getShellConfig,
    getLanguageFromPath,
  };
}

// ---------------------------------------------------------------- front matter

function splitFrontmatter(content) {
  const text = content.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n");
  const end = text.startsWith("---") ? text.indexOf("\n---", 3) : -1;
  if (end < 0) return { header: "", body: text };
  return { header: text.slice(4, end), body: text.slice(end + 4).trim() };
}

function makeFrontmatter(host) {
  const parseFrontmatter = (content) => {
    const { header, body } = splitFrontmatter(content);
    if (!header) return { frontmatter: {}, body };
    return { frontmatter: host.sync("yaml", { text: header }) ?? {}, body };
  };
  return { parseFrontmatter, stripFrontmatter: (content) => parseFrontmatter(content).body };
}

// ---------------------------------------------------------------- files

const queues = new Map();

// Runs changes of one file one after another; changes of other files do not wait.
function withFileMutationQueue(filePath, change) {
  const key = realPath(filePath);
  const before = queues.get(key) ?? Promise.resolve();
  const run = before.then(change, change);
  const done = run.then(plain, plain).then(() => {
    if (queues.get(key) === done) queues.delete(key);
  });
  queues.set(key, done);
  return run;
}

function realPath(path) {
  try {
    return realpathSync(path);
  } catch {
    return resolve(path);
  }
}

// ---------------------------------------------------------------- events of other extensions

function createEventBus() {
  const handlers = new Map();
  const on = (channel, handler) => {
    const list = handlers.get(channel) ?? new Set();
    handlers.set(channel, list.add(handler));
    return () => list.delete(handler);
  };
  const emit = (channel, data) => {
    for (const handler of handlers.get(channel) ?? []) void call(channel, handler, data);
  };
  return { on, emit, clear: () => handlers.clear() };
}

async function call(channel, handler, data) {
  try {
    await handler(data);
  } catch (error) {
    console.error(`Event handler error (${channel}):`, error);
  }
}

// ---------------------------------------------------------------- what a terminal would show

class DynamicBorder {
  constructor(color = plain) {
    this.color = color;
  }

  invalidate() {}

  render(width) {
    return [this.color("─".repeat(Math.max(1, width)))];
  }
}

class BorderedLoader extends Container {
  #controller = new AbortController();
  onAbort = undefined;

  constructor(_tui, _theme, message = "") {
    super();
    this.addChild(new Text(message, 1, 0));
  }

  get signal() {
    return this.#controller.signal;
  }

  handleInput() {}

  dispose() {}
}

class Theme {
  fg(_color, text) {
    return text;
  }

  bg(_color, text) {
    return text;
  }

  bold(text) {
    return text;
  }

  italic(text) {
    return text;
  }

  underline(text) {
    return text;
  }

  inverse(text) {
    return text;
  }

  strikethrough(text) {
    return text;
  }

  getFgAnsi() {
    return "";
  }

  getBgAnsi() {
    return "";
  }

  getColorMode() {
    return "256color";
  }
}

const themeOf = (...names) => () => Object.fromEntries(names.map((name) => [name, plain]));
const highlightCode = (code) => code.split("\n");
const keyText = (keybinding) => KEYS[keybinding] ?? "";
const rawKeyHint = (key, description) => `${key} ${description}`;

function truncateToVisualLines(text, maxVisualLines, width, paddingX = 0) {
  if (!text) return { visualLines: [], skippedCount: 0 };
  const lines = new Text(text, paddingX, 0).render(width);
  const skippedCount = Math.max(0, lines.length - maxVisualLines);
  return { visualLines: lines.slice(skippedCount), skippedCount };
}

function makeTerminal() {
  const inert = INERT.map((name) => [name, { [name]: class extends Container {} }[name]]);
  const markdown = themeOf(
    ...["heading", "link", "linkUrl", "code", "codeBlock", "codeBlockBorder", "quote"],
    ...["quoteBorder", "hr", "listBullet", "bold", "italic", "underline", "strikethrough"],
  );
  const settings = themeOf("label", "value", "description", "hint");
  return {
    ...Object.fromEntries(inert),
    DynamicBorder,
    BorderedLoader,
    CustomEditor: class CustomEditor extends Editor {},
    Theme,
    initTheme: () => {},
    highlightCode,
    getMarkdownTheme: () => ({ ...markdown(), highlightCode }),
    getSelectListTheme: themeOf(
      ...["selectedPrefix", "selectedText", "description", "scrollInfo", "noMatch"],
    ),
    getSettingsListTheme: () => ({ ...settings(), cursor: "→ " }),
    keyText,
    rawKeyHint,
    keyHint: (keybinding, description) => rawKeyHint(keyText(keybinding), description),
    truncateToVisualLines,
    renderDiff: plain,
    copyToClipboard: async () => {
      throw new Error("Ludolf has no clipboard");
    },
  };
}

function makeGuards() {
  const guards = TOOLS.map((name) => [
    `is${name[0].toUpperCase()}${name.slice(1)}ToolResult`,
    (event) => event.toolName === name.toLowerCase(),
  ]);
  return {
    ...Object.fromEntries(guards),
    isToolCallEventType: (toolName, event) => event.toolName === toolName,
    defineTool: plain,
  };
}

export function ownExports(host) {
  const { GREP_MAX_LINE_LENGTH, ...limits } = truncation;
  return {
    ...makePaths(),
    ...limits,
    ...makeFrontmatter(host),
    ...makeTools(host),
    ...makeGuards(),
    ...makeTerminal(),
    withFileMutationQueue,
    createLocalBashOperations,
    createEventBus,
    convertToLlm,
  };
}

export default (host) => namespace("pi-coding-agent", ownExports(host), host);
