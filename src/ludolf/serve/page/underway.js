// What has begun and not ended: the answer as it comes, running tools, and the state of the session.

const TAIL_LINES = 5;
const MOST_OUTPUT = 16384;
const area = at("underway");
const tools = new Map();
const flows = new Map();
const changed = new Set();
let answer = null;
let drawing = false;
let doing = { words: "", since: Date.now() };

// All that arrives between two frames is drawn once.
function redraw(part) {
  changed.add(part);
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    for (const one of changed) one.draw();
    changed.clear();
  });
}

// Readers at the end stay there, whatever grows; the page ends above the composer.
let pinned = true;
const seesEnd = isAtEnd;
isAtEnd = () => pinned;
addEventListener("scroll", () => {
  pinned = seesEnd();
  if (!pinned || !fresh) return;
  fresh = 0;
  showState();
}, { passive: true });
const stay = new ResizeObserver(() => {
  root.style.setProperty("--dock", `${at("dock").offsetHeight}px`);
  if (pinned) scrollTo({ top: root.scrollHeight });
});
stay.observe(at("dock"));
stay.observe(at("main"));

// Text under way: paragraphs and fences, and never anything but text nodes.
class Flow {
  constructor(element) {
    this.element = element;
    this.unread = "";
    this.node = null;
    this.fence = null;
    this.atLine = true;
  }

  add(text) {
    this.unread += text;
    redraw(this);
  }

  draw() {
    let rest = this.unread;
    while (rest) {
      if (this.atLine) {
        const mark = /^ {0,3}(`{3,}|~{3,})/.exec(rest);
        const end = rest.indexOf("\n");
        if (end < 0 && (mark || /^ {0,3}(`{0,2}|~{0,2})$/.test(rest))) break;
        if (mark && (!this.fence || mark[1].startsWith(this.fence))) {
          this.fence = this.fence ? null : mark[1];
          this.node = null;
          rest = rest.slice(end + 1);
          continue;
        }
        if (!this.fence && end === 0) {
          this.node = null;
          rest = rest.slice(1);
          continue;
        }
      }
      const end = rest.indexOf("\n");
      const piece = end < 0 ? rest : rest.slice(0, end + 1);
      this.write(piece);
      this.atLine = end >= 0;
      rest = rest.slice(piece.length);
    }
    this.unread = rest;
  }

  write(text) {
    if (!this.node) {
      const holder = make(this.fence ? "pre" : "p", this.fence ? "fence" : "");
      this.node = document.createTextNode("");
      holder.append(this.node);
      this.element.append(holder);
    }
    this.node.appendData(text);
  }
}

// ------------------------------------------------------------ the answer

function beginAnswer() {
  answer = make("article", "e assistant now");
  const head = make("header");
  head.append(make("span", "role", "Assistant"), make("span", "when", "now"));
  answer.append(head);
  area.append(answer);
  flows.clear();
}

function flowAt(index, kind) {
  let flow = flows.get(index);
  if (flow) return flow;
  if (!answer) beginAnswer();
  let element = make("div", "md");
  if (kind === "thinking") {
    const fold = make("details", "thinking");
    const head = make("summary");
    head.append(make("span", "name", "Thinking"));
    fold.open = open.thinking;
    fold.append(head, element);
    answer.append(fold);
  } else answer.append(element);
  flow = new Flow(element);
  flows.set(index, flow);
  return flow;
}

function resumeAnswer(message) {
  beginAnswer();
  message.content?.forEach((block, index) => {
    const text = block.text ?? block.thinking;
    if (text) flowAt(index, block.type).add(text);
  });
}

function updateAnswer({ assistantMessageEvent: event }) {
  if (event.type === "text_delta" || event.type === "thinking_delta") {
    flowAt(event.contentIndex, event.type.split("_")[0]).add(event.delta);
    note(event.type === "text_delta" ? "Answering" : "Thinking");
  } else if (event.type === "toolcall_start") note(`Preparing ${event.toolName ?? "a tool"}`);
}

// ------------------------------------------------------------ tools

class RunningTool {
  constructor({ toolCallId, toolName, args }) {
    this.id = toolCallId;
    this.name = toolName;
    this.since = Date.now();
    this.element = make("details", "call now running");
    this.element.open = true;
    const head = make("summary");
    this.chip = make("span", "chip", "running");
    head.append(make("span", "name", toolName), make("span", "title", titleOf(args)), this.chip);
    this.box = make("div", "out");
    this.box.hidden = true;
    this.text = make("pre", "wrap");
    const block = make("div", "block");
    block.append(this.text);
    this.box.append(block);
    this.element.append(head, this.box);
    area.append(this.element);
  }

  append(text) {
    this.output = ((this.output ?? "") + text).slice(-MOST_OUTPUT);
    this.show({ content: [{ text: this.output }] });
  }

  show(result) {
    const text = textOfParts(result?.content);
    this.lines = text.trimEnd().split("\n").slice(-TAIL_LINES).join("\n");
    redraw(this);
  }

  draw() {
    this.text.textContent = this.lines ?? "";
    this.box.hidden = !this.lines;
  }
}

const textOfParts = (parts) => (Array.isArray(parts) ? parts.map((part) => part?.text ?? "").join("\n") : "");

function titleOf(args) {
  const first = args?.command ?? args?.path ?? args?.file_path ?? args?.pattern;
  return String(first ?? JSON.stringify(args ?? {})).split("\n")[0].slice(0, 200);
}

function beginTool(frame) {
  tools.set(frame.toolCallId, new RunningTool(frame));
  document.body.classList.add("has-tools");
  note(`Running ${frame.toolName}`);
}

function updateTool(frame) {
  tools.get(frame.toolCallId)?.show(frame.partialResult);
}

function endTool(frame) {
  const tool = tools.get(frame.toolCallId);
  if (!tool) return;
  tool.show(frame.result);
  tool.chip.textContent = frame.isError ? "failed" : "done";
  tool.chip.classList.toggle("bad", frame.isError);
  tool.element.classList.remove("running");
}

// ------------------------------------------------------------ the end of parts

// Parts that the server's rendering replaces with the next entries.
function finishedParts() {
  return [...area.children].filter((part) => part.dataset.over);
}

function endMessage({ message }) {
  if (message.role === "assistant" && answer) {
    answer.dataset.over = "1";
    answer = null;
  } else if (message.role === "toolResult") {
    const tool = tools.get(message.toolCallId);
    if (tool) tool.element.dataset.over = "1";
    tools.delete(message.toolCallId);
  }
  document.body.classList.toggle("has-tools", tools.size > 0);
  if (message.role === "user") refreshSessions(false);
  catchUp();
}

function clearUnderway() {
  area.replaceChildren();
  for (const all of [tools, flows, shells]) all.clear();
  answer = null;
  document.body.classList.remove("has-tools");
  setRunning(false);
}

function setRunning(running) {
  session.running = running;
  at("stop").hidden = !running && !shells.size;
  at("send").textContent = running ? "Steer" : "Send";
  at("send").title = running ? "Steer (Enter); Alt+Enter sends it later" : "Send (Enter)";
  if (!running) {
    for (const part of area.children) if (!part.dataset.shell) part.dataset.over = "1";
    answer = null;
    for (const id of [...tools.keys()]) if (!shells.has(id)) tools.delete(id);
    document.body.classList.toggle("has-tools", tools.size > 0);
  }
  note(running ? "Waiting for the model" : "");
}

// ------------------------------------------------------------ what it does now

function note(words) {
  if (doing.words === words) return;
  if (!words !== !doing.words) at("status").textContent = words ? "Working" : session.id && doing.words ? "Done" : "";
  doing = { words, since: Date.now() };
  showTail();
}

function showTail() {
  const tail = at("tail");
  const since = Date.now() - (data.times[size - 1] ?? Date.now());
  const words = questions.size ? "Waiting for your answer" : doing.words;
  tail.classList.toggle("busy", Boolean(words));
  tail.hidden = !session.id || (!size && !words);
  tail.lastElementChild.textContent = words
    ? `${words} · ${ago(Date.now() - doing.since)}`
    : `Last entry ${ago(since)} ago`;
  for (const tool of tools.values()) {
    if (tool.element.classList.contains("running")) tool.chip.textContent = ago(Date.now() - tool.since);
  }
}
setInterval(showTail, 1000);

// ------------------------------------------------------------ the head

function fill(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => {
    const option = make("option", "", text);
    option.value = value;
    return option;
  }));
  select.value = chosen;
}

// Does something for the user; a failure is shown.
async function attempt(work) {
  try {
    return await work();
  } catch (problem) {
    complain(problem.message);
    return null;
  }
}

const modelName = (model) => `${model.provider}/${model.id}`;

function showChoice(name, value, text) {
  const select = at(name);
  if (!value) {
    if (!session.attached) fill(select, [["", name]], "");
    return;
  }
  if (![...select.options].some((option) => option.value === value)) fill(select, [[value, text ?? value]], value);
  select.value = value;
}

function showFacts(state) {
  document.body.classList.toggle("has-session", session.id !== null);
  for (const name of ["model", "level"]) at(name).disabled = !session.attached;
  showChoice("model", state?.model && modelName(state.model), state?.model?.name);
  showChoice("level", state?.thinkingLevel, `thinking: ${state?.thinkingLevel}`);
  if (!session.attached) {
    at("meter").hidden = true;
    at("cost").textContent = at("others").textContent = "";
  }
}

async function refreshFacts() {
  const id = session.id;
  try {
    const [state, models, levels, stats] = await Promise.all(
      ["get_state", "get_available_models", "get_available_thinking_levels", "get_session_stats"].map((type) => askHere(type)),
    );
    if (session.id !== id) return;
    fill(at("model"), models.models.map((model) => [modelName(model), model.name ?? model.id]), "");
    fill(at("level"), levels.levels.map((level) => [level, `thinking: ${level}`]), "");
    showFacts(state);
    showSpent(stats);
  } catch (problem) {
    if (session.id === id && link.ready) complain(problem.message);
  }
}

async function refreshSpent() {
  const id = session.id;
  const stats = await askHere("get_session_stats").catch(() => null);
  if (stats && session.id === id) showSpent(stats);
}

function showSpent({ contextUsage, cost }) {
  const share = contextUsage?.percent;
  at("meter").hidden = typeof share !== "number";
  if (typeof share === "number") {
    const shown = Math.round(share);
    at("meter").setAttribute("aria-valuenow", String(shown));
    at("meter").firstElementChild.style.setProperty("--share", `${Math.min(100, share)}%`);
    at("meter").lastElementChild.textContent = `${shown} % of ${Math.round(contextUsage.contextWindow / 1000)}k`;
  }
  at("cost").textContent = `$${(cost ?? 0).toFixed(2)}`;
}

function showOthers() {
  const names = [...attending].filter(([client]) => client !== link.client).map(([client, name]) => (name && name !== "browser" ? name : client));
  at("others").textContent = names.length ? `also: ${names.join(", ")}` : "";
}

const clientName = (client) => attending.get(client) ? `${attending.get(client)} (${client})` : client;

at("model").addEventListener("change", () => {
  const [provider, ...rest] = at("model").value.split("/");
  attempt(() => askHere("set_model", { provider, modelId: rest.join("/") })).then(refreshFacts);
});
at("level").addEventListener("change", () => {
  attempt(() => askHere("set_thinking_level", { level: at("level").value })).then(refreshFacts);
});

// ------------------------------------------------------------ events

const EVENTS = {
  agent_start: () => setRunning(true),
  agent_settled: () => {
    setRunning(false);
    catchUp();
    refreshSpent();
    refreshSessions(false);
  },
  turn_start: () => note("Waiting for the model"),
  turn_end: refreshSpent,
  message_start: ({ message }) => {
    if (message.role === "assistant") beginAnswer();
  },
  message_update: updateAnswer,
  message_end: endMessage,
  tool_execution_start: beginTool,
  tool_execution_update: updateTool,
  tool_execution_end: endTool,
  bash_execution_update: ({ id, delta }) => tools.get(id)?.append(delta),
  queue_update: ({ steering, followUp }) => showQueue(steering, followUp),
  entry_appended: ({ entry }) => {
    catchUp();
    if (entry?.type === "model_change") refreshFacts();
  },
  thinking_level_changed: ({ level }) => showFacts({ thinkingLevel: level }),
  session_info_changed: () => {
    catchUp();
    refreshSessions(true);
  },
  compaction_start: () => note("Compacting the history"),
  compaction_end: ({ errorMessage }) => {
    if (errorMessage) complain(errorMessage);
    note(session.running ? "Waiting for the model" : "");
    catchUp();
    refreshSpent();
  },
  auto_retry_start: ({ attempt, maxAttempts, errorMessage }) => {
    note(`Trying again (${attempt} of ${maxAttempts})`);
    complain(errorMessage);
  },
  limit_reached: ({ limit }) => toast(`The limit of ${limit} is reached.`),
  warning: ({ message }) => complain(message),
  extension_error: ({ error }) => complain(error),
  extension_ui_request: showRequest,
  client_joined: ({ client, name }) => {
    attending.set(client, name);
    showOthers();
  },
  client_left: ({ client }) => {
    attending.delete(client);
    showOthers();
  },
  resync: ({ data: found }) => joined(found),
};
