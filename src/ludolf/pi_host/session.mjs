// `ctx.sessionManager`: reads the session; entries are fetched once and kept.
export class SessionView {
  constructor(bridge) {
    this.bridge = bridge;
    this.reset();
  }

  reset() {
    this.entries = [];
    this.byId = new Map();
    this.labels = new Map();
    this.state = {};
    this.pulled = null;
  }

  // Fetches what is new, at most once in a task.
  pull() {
    const { bridge } = this;
    const answer = bridge.read(null, "entries", { gen: bridge.gen, have: this.entries.length });
    if (this.pulled === answer) return this;
    this.pulled = answer;
    this.state = answer;
    for (const entry of answer.more) {
      this.entries.push(entry);
      this.byId.set(entry.id, entry);
      if (entry.type !== "label") continue;
      if (entry.label) this.labels.set(entry.targetId, entry.label);
      else this.labels.delete(entry.targetId);
    }
    if (answer.more.length) bridge.memo = null; // the next pull has another number
    return this;
  }

  branch(from) {
    const path = [];
    let entry = this.byId.get(from ?? this.state.leaf);
    while (entry !== undefined) {
      path.push(entry);
      entry = this.byId.get(entry.parentId);
    }
    return path.reverse();
  }

  tree() {
    const nodes = new Map();
    const roots = [];
    for (const entry of this.entries) {
      nodes.set(entry.id, { entry, children: [], label: this.labels.get(entry.id) });
    }
    for (const node of nodes.values()) {
      (nodes.get(node.entry.parentId)?.children ?? roots).push(node);
    }
    return roots;
  }

  readOnly() {
    const view = this;
    const { bridge } = this;
    const info = () => view.pull().state;
    const refuse = (name) => () => {
      throw new Error(`sessionManager.${name} is not available: extensions read the session only`);
    };
    const methods = {
      getCwd: () => info().cwd,
      getSessionDir: () => info().dir ?? "",
      getSessionId: () => info().id,
      getSessionFile: () => info().file ?? undefined,
      getSessionName: () => info().name ?? undefined,
      getHeader: () => structuredClone(info().header),
      isPersisted: () => info().file !== null,
      getLeafId: () => info().leaf,
      getLeafEntry: () => view.pull().byId.get(view.state.leaf),
      getEntry: (id) => view.pull().byId.get(id),
      getEntries: () => [...view.pull().entries],
      getChildren: (id) => view.pull().entries.filter((one) => one.parentId === id),
      getLabel: (id) => view.pull().labels.get(id),
      getBranch: (from) => view.pull().branch(from),
      getTree: () => view.pull().tree(),
      buildContextEntries: () => bridge.read(null, "context_ids").map((id) => view.pull().byId.get(id)),
      buildSessionContext: () => structuredClone(bridge.read(null, "session_context")),
      buildSessionProjection: () => structuredClone(bridge.read(null, "session_context")),
    };
    return new Proxy(methods, {
      get(target, name) {
        if (name in target || typeof name !== "string" || name === "then") return target[name];
        return refuse(name);
      },
    });
  }

  // The session that `setup` of `newSession` fills.
  writable() {
    const { bridge } = this;
    const append = (body) => bridge.ask(null, "setup_append", body);
    const content = (customType, said, display, details) =>
      append({ type: "custom_message", customType, content: said, display, details });
    const methods = {
      appendMessage: (message) => append({ type: "message", message }),
      appendCustomEntry: (customType, data) => append({ type: "custom", customType, data }),
      appendCustomMessageEntry: content,
      appendSessionInfo: (name) => append({ type: "session_info", name }),
      appendModelChange: (provider, modelId) => append({ type: "model_change", provider, modelId }),
      appendThinkingLevelChange: (level) =>
        append({ type: "thinking_level_change", thinkingLevel: level }),
      appendLabelChange: (targetId, label) => append({ type: "label", targetId, label }),
    };
    return new Proxy(methods, {
      get: (target, name) => (name in target ? target[name] : this.readOnly()[name]),
    });
  }
}
