// `message_update` and `tool_execution_update`: pieces arrive in batches, and the message so far
// is built here. Handlers of one batch run in order; later hooks wait for them.
export class Pieces {
  constructor(bridge) {
    this.bridge = bridge;
    this.chain = Promise.resolve();
    this.open = 0;
    this.reset();
  }

  reset() {
    this.message = null;
    this.args = new Map();
  }

  get busy() {
    return this.open > 0;
  }

  idle() {
    return this.chain;
  }

  take(list) {
    const events = [];
    for (const piece of list) {
      if (Array.isArray(piece)) events.push(this.update(piece));
      else if (piece.message) this.begin(piece.message);
      else events.push({ type: "tool_execution_update", ...piece.tool });
    }
    if (!events.length) return;
    this.open += 1;
    const run = () => this.dispatch(events);
    this.chain = this.chain.then(run).finally(() => (this.open -= 1));
  }

  async dispatch(events) {
    for (const event of events) {
      for (const hook of this.bridge.watchers[event.type]) {
        try {
          const result = hook.function(event, hook.extension.context);
          if (typeof result?.then === "function") await result;
        } catch (error) {
          this.bridge.report(event.type, error, hook.extension.ext);
        }
      }
    }
  }

  begin(message) {
    this.message = { ...message, content: message.content ?? [] };
    this.args.clear();
  }

  // A piece is [type, contentIndex, value]; each event gets a message of its own.
  update([type, contentIndex, value]) {
    const content = [...this.message.content];
    const event = { type, contentIndex };
    const block = content[contentIndex];
    const [kind, step] = type.split("_");
    if (step === "start") {
      content[contentIndex] = this.started(kind, contentIndex, value);
    } else if (step === "delta") {
      event.delta = value;
      content[contentIndex] = this.grown(kind, contentIndex, block, value);
    } else {
      content[contentIndex] = value;
      if (kind === "toolcall") event.toolCall = value;
      else event.content = value[kind];
    }
    this.message = { ...this.message, content };
    event.partial = this.message;
    return { type: "message_update", message: this.message, assistantMessageEvent: event };
  }

  started(kind, index, value) {
    if (kind === "text") return { type: "text", text: "" };
    if (kind === "thinking") return { type: "thinking", thinking: "" };
    this.args.set(index, "");
    return { type: "toolCall", ...value, arguments: {} };
  }

  grown(kind, index, block, delta) {
    if (kind !== "toolcall") return { ...block, [kind]: (block?.[kind] ?? "") + delta };
    const text = (this.args.get(index) ?? "") + delta;
    this.args.set(index, text);
    return unfinishedCall(block, text);
  }
}

// A tool call whose arguments are parsed when a handler reads them.
function unfinishedCall({ id, name }, text) {
  let args;
  return {
    type: "toolCall",
    id,
    name,
    get arguments() {
      args ??= partialObject(text) ?? {};
      return args;
    },
  };
}

// The object that an unfinished JSON text describes so far; undefined if it says nothing new.
export function partialObject(text) {
  const closers = [];
  let inText = false;
  let safe = -1;
  let stack = "";
  for (let i = 0; i < text.length; i += 1) {
    const char = text[i];
    if (inText) {
      if (char === "\\") i += 1;
      else if (char === '"') inText = false;
    } else if (char === '"') inText = true;
    else if (char === "{" || char === "[") closers.push(char === "{" ? "}" : "]");
    else if (char === "}" || char === "]") closers.pop();
    if (!inText && (char === "{" || char === "[" || char === "}" || char === "]" || char === ",")) {
      safe = char === "," ? i : i + 1;
      stack = [...closers].reverse().join("");
    }
  }
  const ends = inText ? [`${text}"${[...closers].reverse().join("")}`] : [text];
  ends.push(text.slice(0, safe) + stack);
  for (const end of ends) {
    try {
      const value = JSON.parse(end);
      if (value !== null && typeof value === "object") return value;
    } catch {
      // the next candidate is shorter
    }
  }
  return undefined;
}
