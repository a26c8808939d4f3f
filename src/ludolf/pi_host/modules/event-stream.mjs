// Streams of events that end with a result.
export class EventStream {
  #queue = [];
  #waiting = [];
  #done = false;
  #isComplete;
  #extractResult;
  #settle;
  #result;

  constructor(isComplete, extractResult) {
    this.#isComplete = isComplete;
    this.#extractResult = extractResult;
    this.#result = new Promise((resolve) => (this.#settle = resolve));
  }

  push(event) {
    if (this.#done) return;
    if (this.#isComplete(event)) {
      this.#done = true;
      this.#settle(this.#extractResult(event));
    }
    const reader = this.#waiting.shift();
    if (reader) reader({ value: event, done: false });
    else this.#queue.push(event);
  }

  end(result) {
    this.#done = true;
    if (result !== undefined) this.#settle(result);
    for (const reader of this.#waiting.splice(0)) reader({ value: undefined, done: true });
  }

  async *[Symbol.asyncIterator]() {
    while (true) {
      if (this.#queue.length) {
        yield this.#queue.shift();
      } else if (this.#done) {
        return;
      } else {
        const { value, done } = await new Promise((resolve) => this.#waiting.push(resolve));
        if (done) return;
        yield value;
      }
    }
  }

  result() {
    return this.#result;
  }
}

// Ends with `done` or `error`; the result is the message of the event.
export class AssistantMessageEventStream extends EventStream {
  constructor() {
    super(
      ({ type }) => type === "done" || type === "error",
      (event) => (event.type === "done" ? event.message : event.error),
    );
  }
}

export const createAssistantMessageEventStream = () => new AssistantMessageEventStream();

// Builds the message so far from events that do not contain it.
export class Draft {
  #calls = new Map();

  constructor(model) {
    this.message = {
      role: "assistant",
      content: [],
      api: model.api,
      provider: model.provider,
      model: model.id,
      usage: emptyUsage(),
      stopReason: "stop",
      timestamp: Date.now(),
    };
  }

  // Returns the event with `partial`.
  take({ id, toolName, ...event }) {
    const [kind, step] = event.type.split("_");
    const { content } = this.message;
    const at = event.contentIndex;
    if (step === "start") content[at] = this.#begun(kind, at, { id, name: toolName });
    else if (step === "delta") this.#grow(kind, content[at], at, event.delta);
    else if (event.toolCall) content[at] = event.toolCall;
    else content[at] = { ...content[at], [kind]: event.content };
    return { ...event, partial: { ...this.message, content: [...content] } };
  }

  #begun(kind, at, { id, name }) {
    if (kind !== "toolcall") return { type: kind, [kind]: "" };
    this.#calls.set(at, "");
    return { type: "toolCall", id: id ?? "", name: name ?? "", arguments: {} };
  }

  #grow(kind, block, at, delta) {
    if (kind !== "toolcall") {
      block[kind] += delta;
      return;
    }
    const text = (this.#calls.get(at) ?? "") + delta;
    this.#calls.set(at, text);
    try {
      block.arguments = JSON.parse(text);
    } catch {
      // The text is not complete yet.
    }
  }
}

export function emptyUsage() {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  return { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
}
