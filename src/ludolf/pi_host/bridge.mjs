// The state of the host process: generations of extensions, calls in both directions, hooks.
import { AsyncLocalStorage } from "node:async_hooks";
import { isDeepStrictEqual } from "node:util";
import { accessOf, listedModels, logIn, LoginCallbacks, renewed } from "./accounts.mjs";
import { makeApi } from "./api.mjs";
import { commandContext, eventContext } from "./context.mjs";
import { Loader } from "./loader.mjs";
import { Pieces } from "./pieces.mjs";
import { SessionView } from "./session.mjs";
import { relay } from "./streams.mjs";

const LOADING =
  "Extension runtime not initialized. Action methods cannot be called during extension loading.";
const STALE =
  "This extension ctx is stale after session replacement or reload. Do not use a captured pi or " +
  "command ctx after newSession, fork, switchSession or reload; use the ctx passed to withSession.";
// The part of an event that handlers may change in place.
const MUTABLE = {
  tool_call: "input",
  context: "messages",
  context_with_system: "messages",
  before_provider_headers: "headers",
  before_provider_request: "payload",
  before_agent_start: "systemPromptOptions",
};
const UPDATES = new Set(["message_update", "tool_execution_update"]);

// The call of Ludolf on whose behalf code runs.
const within = new AsyncLocalStorage();

export const textOf = (error) => String(error?.message || error);

export class Bridge {
  constructor(wire) {
    this.wire = wire;
    this.gen = 0;
    this.bound = false;
    this.info = {};
    this.number = 0;
    this.waiting = new Map(); // our calls: id -> { resolve, reject, update }
    this.working = new Map(); // calls of Ludolf: id -> AbortController
    this.hooks = new Map();
    this.watchers = { message_update: [], tool_execution_update: [] };
    this.extensions = new Map();
    this.callbacks = new Map();
    this.runs = new Map();
    this.bus = new Map();
    this.memo = null;
    this.ticking = false;
    this.lastMessages = [];
    this.session = new SessionView(this);
    this.pieces = new Pieces(this);
    this.loader = new Loader(this);
    this.host = {
      sync: (method, args) => this.ask(null, method, args),
      call: (method, args, signal, update) => this.call(null, method, args, signal, update),
      tell: (method, args) => this.tell(null, method, args),
      info: () => this.info,
    };
  }

  // ------------------------------------------------------------ frames of Ludolf

  take(frame) {
    this.memo = null;
    switch (frame.t) {
      case "call":
        return void this.work(frame);
      case "pieces":
        return this.pieces.take(frame.l);
      case "ret":
        return this.settle(frame);
      case "upd":
        return this.waiting.get(frame.id)?.update?.(frame.v);
      case "cancel":
        return this.working.get(frame.id)?.abort();
      case "abort":
        this.runs.get(frame.run)?.abort();
        return void this.runs.delete(frame.run);
      case "open":
        return this.open(frame);
      case "bind":
        this.info = frame.info;
        this.bound = true;
        return;
      case "ping":
        return this.wire.send({ t: "pong", n: frame.n, rss: process.memoryUsage.rss() });
      case "end":
        return process.reallyExit(0);
    }
  }

  // Begins a generation: what belonged to the last one is stale.
  open({ gen, fresh, info }) {
    this.gen = gen;
    this.bound = false;
    this.info = info;
    this.hooks.clear();
    this.extensions.clear();
    this.runs.clear();
    this.bus.clear();
    for (const name of Object.keys(this.watchers)) this.watchers[name] = [];
    this.session.reset();
    this.pieces.reset();
    this.lastMessages = [];
    if (fresh) this.loader.forget();
    try {
      process.chdir(info.cwd);
    } catch {
      // the folder is gone; the process stays where it is
    }
  }

  settle({ id, v, e }) {
    const call = this.waiting.get(id);
    if (call === undefined) return;
    this.waiting.delete(id);
    if (e !== undefined) call.reject(new Error(e));
    else call.resolve(v);
  }

  // ------------------------------------------------------------ questions to Ludolf

  checkFresh(gen) {
    if (gen !== this.gen) throw new Error(STALE);
  }

  checkBound(gen) {
    this.checkFresh(gen);
    if (!this.bound) throw new Error(LOADING);
  }

  ask(ext, m, a) {
    this.memo = null;
    return this.wire.ask({ ext, m, a });
  }

  // Asks for a value that stays the same until the present task is over.
  read(ext, m, a = null) {
    const key = a === null ? m : `${m} ${JSON.stringify(a)}`;
    if (this.memo === null) {
      this.memo = new Map();
      setImmediate(() => (this.memo = null));
    }
    const { memo } = this;
    if (!memo.has(key)) memo.set(key, this.wire.ask({ ext, m, a }));
    return memo.get(key);
  }

  tell(ext, m, a) {
    this.memo = null;
    this.wire.send({ t: "tell", ext, m, a });
  }

  // Runs that a message starts begin when the present task is over.
  tick() {
    if (this.ticking) return;
    this.ticking = true;
    setImmediate(() => {
      this.ticking = false;
      this.wire.send({ t: "tick" });
    });
  }

  call(ext, m, a, signal, update) {
    const id = ++this.number;
    return new Promise((resolve, reject) => {
      this.memo = null;
      this.wire.send({ t: "call", id, ext, m, a, in: within.getStore() });
      const cancel = () => this.wire.send({ t: "cancel", id });
      const done = (settle) => (value) => {
        signal?.removeEventListener("abort", cancel);
        settle(value);
      };
      this.waiting.set(id, { resolve: done(resolve), reject: done(reject), update });
      if (signal?.aborted) cancel();
      else signal?.addEventListener("abort", cancel, { once: true });
    });
  }

  keep(callback) {
    if (typeof callback !== "function") return undefined;
    const id = ++this.number;
    this.callbacks.set(id, callback);
    return id;
  }

  report(where, error, ext = null) {
    this.wire.send({ t: "error", ext, where, error: textOf(error) });
  }

  // The signal of a run: one for all who ask for it.
  signalOf(run) {
    if (run === null || run === undefined) return undefined;
    if (!this.runs.has(run)) this.runs.set(run, new AbortController());
    return this.runs.get(run).signal;
  }

  // ------------------------------------------------------------ work for Ludolf

  async work({ id, m, a }) {
    const controller = new AbortController();
    this.working.set(id, controller);
    if (m === "hook") this.unpack(a);
    let frame;
    try {
      frame = { t: "ret", id, v: await within.run(id, () => this[`do_${m}`](a, controller.signal, id)) };
      this.wire.send(frame);
    } catch (error) {
      this.wire.send({ t: "ret", id, e: textOf(error) });
    } finally {
      this.working.delete(id);
    }
  }

  async do_load({ ext, path, gen }) {
    this.checkFresh(gen);
    const factory = await this.loader.load(path);
    if (typeof factory !== "function") {
      throw new Error(`Extension does not export a valid factory function: ${path}`);
    }
    const extension = { ext, path, gen, tools: new Map(), commands: new Map() };
    extension.providers = new Map();
    extension.shortcuts = new Map();
    extension.context = eventContext(this, extension);
    this.extensions.set(ext, extension);
    try {
      extension.api = makeApi(this, extension);
      await factory(extension.api);
    } catch (error) {
      this.forget(extension);
      throw error;
    }
    return this.loader.takeFiles();
  }

  // Drops the registrations of a factory that failed.
  forget(extension) {
    this.extensions.delete(extension.ext);
    for (const [h, hook] of this.hooks) if (hook.extension === extension) this.hooks.delete(h);
    for (const [event, hooks] of Object.entries(this.watchers)) {
      this.watchers[event] = hooks.filter((hook) => hook.extension !== extension);
    }
  }

  // Messages travel once: an event has only those after the ones that the last event had.
  unpack(a) {
    if (a.same === undefined) return;
    this.lastMessages = [...this.lastMessages.slice(0, a.same), ...a.ev.messages];
    a.pristine = this.lastMessages;
    a.ev.messages = structuredClone(this.lastMessages);
  }

  async do_hook({ h, ev, pristine }, signal) {
    const hook = this.hooks.get(h);
    if (hook === undefined) return undefined;
    if (this.pieces.busy) await this.pieces.idle();
    const key = MUTABLE[ev.type];
    const before = pristine ?? (key && structuredClone(ev[key]));
    if (ev.type === "session_before_compact" || ev.type === "session_before_tree") {
      ev.signal = signal;
    }
    if (ev.type === "context_with_system") {
      ev.messages.unshift({ role: "system", content: ev.systemPrompt, timestamp: Date.now() });
    }
    const answer = await hook.function(ev, hook.extension.context);
    if (ev.type.startsWith("context")) return this.messagesAnswer(ev, answer, before);
    if (ev.type === "before_provider_request") return payloadAnswer(ev, answer, before);
    const changed = key !== undefined && !isDeepStrictEqual(before, ev[key]);
    if (ev.type === "user_bash") this.keepOperations(answer);
    if (answer === undefined && !changed) return undefined;
    return { v: answer ?? undefined, c: changed ? { [key]: ev[key] } : undefined };
  }

  messagesAnswer(ev, answer, before) {
    let list = Array.isArray(answer?.messages) ? answer.messages : ev.messages;
    let system;
    if (ev.type === "context_with_system") {
      const [first] = list;
      if (first?.role !== "system") {
        this.report("context_with_system", "the leading system message is missing; it was kept");
      } else {
        if (first.content !== ev.systemPrompt) system = first.content;
        list = list.slice(1);
      }
    }
    let same = 0;
    while (same < before.length && isDeepStrictEqual(list[same], before[same])) same += 1;
    const equal = same === before.length && same === list.length;
    if (equal && system === undefined) return undefined;
    const v = system === undefined ? {} : { systemPrompt: textOfContent(system) };
    return equal ? { v } : { v, same, more: list.slice(same) };
  }

  keepOperations(answer) {
    const operations = answer?.operations;
    if (operations === undefined || operations === null) return;
    if (typeof operations.exec !== "function") throw new Error("operations must have exec");
    answer.operations = this.keep(operations.exec.bind(operations));
  }

  async do_operate({ operations, command, cwd }, signal, id) {
    const exec = this.callbacks.get(operations);
    const onData = (data) => this.wire.send({ t: "upd", id, v: String(data) });
    const result = await exec(command, cwd, { onData, signal });
    return result?.exitCode ?? null;
  }

  do_tool({ ext, name, id: callId, args }, signal, id) {
    const extension = this.extensions.get(ext);
    const tool = extension?.tools.get(name);
    if (tool === undefined) throw new Error(`Tool ${name} not found`);
    const onUpdate = (partial) => {
      if (this.working.has(id)) this.wire.send({ t: "upd", id, v: partial });
    };
    return tool.execute(callId, args, signal, onUpdate, extension.context);
  }

  do_prepare({ ext, name, args }) {
    return this.extensions.get(ext).tools.get(name).prepareArguments(args);
  }

  async do_command({ ext, name, args }) {
    const extension = this.extensions.get(ext);
    await extension.commands.get(name).handler(args, commandContext(this, extension));
  }

  do_completions({ ext, name, prefix }) {
    return this.extensions.get(ext).commands.get(name).getArgumentCompletions(prefix);
  }

  async do_shortcut({ ext, key }) {
    const extension = this.extensions.get(ext);
    await extension.shortcuts.get(key).handler(extension.context);
  }

  // Calls back into a function that an extension passed with a request.
  async do_then({ callback, ext, args }) {
    const then = this.callbacks.get(callback);
    this.callbacks.delete(callback);
    const extension = this.extensions.get(ext) ?? [...this.extensions.values()][0];
    await then(...(args ?? [commandContext(this, extension, { sends: true })]));
  }

  async do_setup({ callback }) {
    const setup = this.callbacks.get(callback);
    this.callbacks.delete(callback);
    await setup(this.session.writable());
  }

  do_stream({ ext, name, model, context, options }, signal, id) {
    const provider = this.extensions.get(ext).providers.get(name);
    const stream = provider.streamSimple ?? provider.stream;
    const source = stream.call(provider, model, context, { ...options, signal });
    return relay(source, (event) => this.wire.send({ t: "upd", id, v: event }));
  }

  // ------------------------------------------------------------ accounts of providers

  providerOf({ ext, name }) {
    const provider = this.extensions.get(ext)?.providers.get(name);
    if (provider === undefined) throw new Error(`Provider ${name} is not registered`);
    return provider;
  }

  do_login(a, signal) {
    const callbacks = (over) => new LoginCallbacks(this, a, over);
    return logIn(this.providerOf(a), callbacks, signal);
  }

  do_renew(a, signal) {
    return renewed(this.providerOf(a), a.credential, signal);
  }

  do_access(a) {
    return accessOf(this.providerOf(a), a.credential);
  }

  do_models(a, signal) {
    const keep = (entry) => this.call(a.ext, "store_models", { refresh: a.refresh, entry }, signal);
    return listedModels(this.providerOf(a), a, keep, signal);
  }

  do_adapt(a) {
    return this.providerOf(a).oauth.modifyModels(a.models, a.credential);
  }

  // ------------------------------------------------------------ hooks

  addHook(extension, event, handler) {
    const h = ++this.number;
    const hook = { function: handler, extension };
    this.hooks.set(h, hook);
    if (UPDATES.has(event)) this.watchers[event].push(hook);
    this.wire.send({ t: "on", h, ext: extension.ext, event });
    return () => {
      if (!this.hooks.delete(h)) return;
      if (UPDATES.has(event)) {
        this.watchers[event] = this.watchers[event].filter((one) => one !== hook);
      }
      this.wire.send({ t: "off", h, ext: extension.ext });
    };
  }
}

function payloadAnswer(ev, answer, before) {
  if (answer !== undefined) return { v: answer };
  return isDeepStrictEqual(before, ev.payload) ? undefined : { v: ev.payload };
}

function textOfContent(content) {
  if (typeof content === "string") return content;
  return content.map((block) => block.text ?? "").join("\n");
}
