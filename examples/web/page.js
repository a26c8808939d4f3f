"use strict";
// Render the frames of Ludolf as they arrive. All text becomes text nodes, so that the output of a
// model, a tool or a file cannot become markup.

const $ = (id) => document.getElementById(id);

function make(tag, kind = "", ...children) {
  const element = document.createElement(tag);
  element.className = kind;
  element.append(...children);
  return element;
}

// ---------------------------------------------------------------- the page

const story = $("story");
const empty = $("empty");
let blocks = new Map(); // blocks of the current answer, by index
let cards = new Map(); // tool calls, by id

function add(element) {
  empty.remove();
  story.append(element);
  return element;
}

// Scroll to the end, unless the user has scrolled back.
const view = document.documentElement;
let atEnd = true;
addEventListener("scroll", () => (atEnd = view.scrollHeight - view.scrollTop - view.clientHeight < 60));
new ResizeObserver(() => atEnd && (view.scrollTop = view.scrollHeight)).observe(story);

function note(text, kind = "") {
  add(make("p", `note ${kind}`, text));
}

let busy = false;

function setState(connected) {
  $("status").dataset.state = connected ? (busy ? "busy" : "idle") : "away";
  $("status").textContent = connected ? (busy ? "working" : "ready") : "not connected";
  $("stop").hidden = !connected || !busy;
}

function setBusy(now) {
  busy = now;
  setState(true);
}

// ---------------------------------------------------------------- answers

// A subset of Markdown: fences, headings, lists, `code` and **bold**. Everything else is plain text.
function render(parent, text) {
  parent.replaceChildren();
  let lines = null; // lines of an open fence
  let paragraph = [];
  const close = () => {
    if (paragraph.length) parent.append(inline(make("p"), paragraph.join("\n")));
    paragraph = [];
  };
  const fence = () => {
    parent.append(make("pre", "", make("code", "", lines.join("\n"))));
    lines = null;
  };
  for (const line of text.split("\n")) {
    const heading = /^(#{1,3}) (.*)/.exec(line);
    const item = /^\s*(?:[-*]|\d+\.) (.*)/.exec(line);
    if (lines && /^\s*```/.test(line)) fence();
    else if (lines) lines.push(line);
    else if (/^\s*```/.test(line)) {
      close();
      lines = [];
    } else if (heading) {
      close();
      parent.append(inline(make(`h${heading[1].length + 2}`), heading[2]));
    } else if (item) {
      close();
      if (parent.lastChild?.tagName !== "UL") parent.append(make("ul"));
      parent.lastChild.append(inline(make("li"), item[1]));
    } else if (line.trim()) paragraph.push(line);
    else close();
  }
  if (lines) fence();
  close();
}

function inline(parent, text) {
  for (const part of text.split(/(`[^`]+`|\*\*[^*]+\*\*)/)) {
    if (/^`[^`]+`$/.test(part)) parent.append(make("code", "", part.slice(1, -1)));
    else if (/^\*\*[^*]+\*\*$/.test(part)) parent.append(make("b", "", part.slice(2, -2)));
    else if (part) parent.append(part);
  }
  return parent;
}

function textBlock(text = "") {
  const block = { text, element: make("article", "answer") };
  block.draw = () => {
    block.due = false;
    render(block.element, block.text);
  };
  block.draw();
  add(block.element);
  return block;
}

function thinkingBlock(text = "") {
  const block = { text, element: make("details", "thinking") };
  const body = make("p");
  block.element.append(make("summary", "", make("span", "what", "Thinking")), body);
  block.draw = () => {
    block.due = false;
    body.textContent = block.text;
  };
  block.draw();
  add(block.element);
  return block;
}

function onPiece(piece) {
  const at = piece.contentIndex;
  if (piece.type === "text_start") {
    blocks.set(at, textBlock());
    blocks.get(at).element.classList.add("growing");
  } else if (piece.type === "thinking_start") blocks.set(at, thinkingBlock());
  else if (piece.type === "text_delta" || piece.type === "thinking_delta") {
    const block = blocks.get(at);
    block.text += piece.delta;
    // Render at most once per animation frame.
    if (!block.due) requestAnimationFrame(block.draw);
    block.due = true;
  }
}

function onMessage(message) {
  if (message.role === "user") return void add(make("article", "said", textOf(message.content)));
  if (message.role === "toolResult") return onToolEnd(message.toolCallId, message, message.isError);
  if (message.role !== "assistant") return;
  for (const block of blocks.values()) block.element.remove();
  blocks = new Map();
  for (const block of message.content) {
    if (block.type === "text") textBlock(block.text);
    else if (block.type === "thinking") thinkingBlock(block.thinking);
    else if (block.type === "toolCall") card(block.id, block.name, block.arguments);
  }
  if (message.stopReason === "error") note(message.errorMessage ?? "The model failed.", "bad");
  if (message.stopReason === "aborted") note("Stopped.");
}

function textOf(content) {
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : `[${block.type}]`)).join("");
}

// ---------------------------------------------------------------- tools

function card(id, name, args) {
  if (cards.has(id)) return cards.get(id);
  const what = args.command ?? args.path ?? args.pattern ?? JSON.stringify(args);
  const mark = make("span", "mark", "…");
  const output = make("pre");
  const head = make("summary", "", mark, make("span", "name", name), make("span", "what", what));
  head.title = JSON.stringify(args, null, 2);
  output.hidden = true;
  const element = make("details", "tool", head, output);
  cards.set(id, { element, mark, output });
  add(element);
  return cards.get(id);
}

function onToolOutput(id, result) {
  const { output } = cards.get(id);
  output.replaceChildren(...(result.details?.diff ? diff(result.details.diff) : [textOf(result.content)]));
  output.hidden = !output.textContent;
}

function diff(text) {
  const kinds = { "+": "more", "-": "less" };
  return text.split("\n").map((line) => make("span", kinds[line[0]] ?? "", `${line}\n`));
}

function onToolEnd(id, result, failed) {
  if (!cards.has(id)) return;
  const { element, mark, output } = cards.get(id);
  onToolOutput(id, result);
  mark.textContent = failed ? "✗" : "✓";
  element.open = failed || output.textContent.split("\n").length <= 8;
  element.classList.toggle("failed", failed);
}

// ---------------------------------------------------------------- dialogs

let dialogs = []; // the first is shown, the others are queued

function onDialog(frame) {
  if (frame.method === "notify") note(frame.message, frame.notifyType === "error" ? "bad" : "");
  if (!["confirm", "select", "input", "editor"].includes(frame.method)) return;
  dialogs.push(frame);
  ask();
}

function ask() {
  $("dialog").close();
  if (!dialogs.length) return;
  const [frame] = dialogs;
  $("question").textContent = frame.title;
  $("details").textContent = frame.message ?? "";
  $("input").hidden = !["input", "editor"].includes(frame.method);
  $("input").value = frame.prefill ?? "";
  $("yes").hidden = frame.method === "select";
  const choices = (frame.options ?? []).map((option) => {
    const button = make("button", "", option);
    button.type = "button";
    button.onclick = () => answer({ value: option });
    return button;
  });
  $("choices").replaceChildren(...choices);
  $("dialog").showModal();
}

function answer(fields) {
  command({ type: "extension_ui_response", id: dialogs[0].id, ...fields });
  onDialogOver(dialogs[0].id);
}

function onDialogOver(id) {
  const shown = dialogs[0]?.id;
  dialogs = dialogs.filter((frame) => frame.id !== id);
  if (shown === id) ask();
}

$("no").onclick = () => answer({ cancelled: true });
$("dialog").oncancel = (event) => {
  event.preventDefault();
  answer({ cancelled: true });
};
$("yes").onclick = (event) => {
  event.preventDefault();
  answer(dialogs[0].method === "confirm" ? { confirmed: true } : { value: $("input").value });
};

// ---------------------------------------------------------------- the wire

const HANDLERS = {
  state: (frame) => ($("model").textContent = frame.model ? `${frame.model.provider}/${frame.model.id}` : ""),
  agent_start: () => setBusy(true),
  agent_settled: () => setBusy(false),
  message_update: (frame) => onPiece(frame.assistantMessageEvent),
  message_end: (frame) => onMessage(frame.message),
  tool_execution_start: (frame) => card(frame.toolCallId, frame.toolName, frame.args),
  tool_execution_update: (frame) => onToolOutput(frame.toolCallId, frame.partialResult),
  tool_execution_end: (frame) => onToolEnd(frame.toolCallId, frame.result, frame.isError),
  auto_retry_start: (frame) => note(`${frame.errorMessage} Trying again.`, "bad"),
  warning: (frame) => note(frame.message, "bad"),
  extension_ui_request: onDialog,
  dialog_over: (frame) => onDialogOver(frame.id),
  ended: () => {
    events.close();
    setState(false);
    note("Ludolf has ended.", "bad");
  },
};

const events = new EventSource("events");
events.onopen = () => setState(true);
events.onerror = () => setState(false);
events.onmessage = (event) => {
  const frame = JSON.parse(event.data);
  HANDLERS[frame.type]?.(frame);
};
events.addEventListener("begin", () => {
  story.replaceChildren(empty);
  [blocks, cards, dialogs] = [new Map(), new Map(), []];
  ask();
});

async function command(frame) {
  const options = { method: "POST", body: JSON.stringify(frame), headers: { "Content-Type": "application/json" } };
  try {
    const reply = await (await fetch("command", options)).json();
    if (!reply.success) note(reply.error, "bad");
  } catch {
    note("The host does not answer.", "bad");
  }
}

// ---------------------------------------------------------------- user input

$("ask").onsubmit = (event) => {
  event.preventDefault();
  const message = $("text").value.trim();
  if (!message) return;
  $("text").value = "";
  command({ type: "prompt", message });
};
$("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("ask").requestSubmit();
  }
};
$("stop").onclick = () => command({ type: "abort" });
$("new").onclick = () => command({ type: "new_session" });
$("theme").onclick = () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
};
