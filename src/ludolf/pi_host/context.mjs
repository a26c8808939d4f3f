// `ctx`: state and actions for handlers, tools and commands.
import { ModelRegistry } from "./models.mjs";
import { makeUi } from "./ui.mjs";

class EventContext {
  #bridge;
  #extension;

  constructor(bridge, extension) {
    this.#bridge = bridge;
    this.#extension = extension;
    this.ui = makeUi(bridge, extension);
  }

  _read(method) {
    this.#bridge.checkBound(this.#extension.gen);
    return this.#bridge.read(this.#extension.ext, method) ?? undefined;
  }

  _tell(method, args = {}) {
    this.#bridge.checkBound(this.#extension.gen);
    this.#bridge.tell(this.#extension.ext, method, args);
  }

  _call(method, args, signal) {
    this.#bridge.checkBound(this.#extension.gen);
    return this.#bridge.call(this.#extension.ext, method, args, signal);
  }

  _keep(callback) {
    return this.#bridge.keep(callback);
  }

  get mode() {
    return this.#bridge.info.mode;
  }

  get hasUI() {
    return this.#bridge.info.hasUI;
  }

  get cwd() {
    return this.#bridge.info.cwd;
  }

  get sessionManager() {
    this.#bridge.checkBound(this.#extension.gen);
    return this.#bridge.session.readOnly();
  }

  get modelRegistry() {
    return new ModelRegistry(this.#bridge, this.#extension);
  }

  get model() {
    return this._read("model");
  }

  get scopedModels() {
    return this._read("scoped_models");
  }

  get thinkingLevel() {
    return this._read("thinking_level");
  }

  get signal() {
    return this.#bridge.signalOf(this._read("run"));
  }

  isIdle() {
    return this._read("is_idle");
  }

  isProjectTrusted() {
    return this._read("trusted");
  }

  hasPendingMessages() {
    return this._read("has_pending");
  }

  abort() {
    this._tell("abort");
  }

  shutdown() {
    this._tell("shutdown");
  }

  getContextUsage() {
    return this._read("context_usage");
  }

  getSystemPrompt() {
    return this._read("system_prompt");
  }

  compact(options = {}) {
    const failed = (error) => options.onError?.(error);
    this._call("compact", { instructions: options.customInstructions })
      .then((result) => options.onComplete?.(result), failed)
      .catch((error) => this.#bridge.report("compact", error, this.#extension.ext));
  }
}

class CommandContext extends EventContext {
  getSystemPromptOptions() {
    return structuredClone(this._read("prompt_options"));
  }

  async waitForIdle() {
    await this._call("wait_for_idle", {});
  }

  newSession({ parentSession, setup, withSession } = {}) {
    const callbacks = { setup: this._keep(setup), then: this._keep(withSession) };
    return this._call("new_session", { parentSession, ...callbacks });
  }

  fork(entryId, { position, withSession } = {}) {
    return this._call("fork", { entryId, position, then: this._keep(withSession) });
  }

  navigateTree(targetId, options = {}) {
    return this._call("navigate_tree", { targetId, ...options });
  }

  switchSession(path, { withSession } = {}) {
    return this._call("switch_session", { path, then: this._keep(withSession) });
  }

  async reload() {
    await this._call("reload", {});
  }
}

// The context of `withSession`, whose sends can be awaited.
class ReplacedContext extends CommandContext {
  async sendMessage(message, options = {}) {
    await this._call("send_message", { message, options });
  }

  async sendUserMessage(content, options = {}) {
    await this._call("send_user_message", { content, options });
  }
}

export const eventContext = (bridge, extension) => new EventContext(bridge, extension);

export function commandContext(bridge, extension, { sends = false } = {}) {
  return new (sends ? ReplacedContext : CommandContext)(bridge, extension);
}
