// `ctx`: state and actions for handlers, tools and commands. As in pi it is a plain object with own
// getters: extensions copy its descriptors, spread it and use it as a prototype.
import { ModelRegistry } from "./models.mjs";
import { makeUi } from "./ui.mjs";

export function eventContext(bridge, extension) {
  const { ext, gen } = extension;
  const ui = makeUi(bridge, extension);
  const models = new ModelRegistry(bridge, extension);
  const read = (method) => {
    bridge.checkBound(gen);
    return bridge.read(ext, method) ?? undefined;
  };
  const tell = (method) => {
    bridge.checkBound(gen);
    bridge.tell(ext, method, {});
  };
  return {
    ui,
    get mode() {
      return bridge.info.mode;
    },
    get hasUI() {
      return bridge.info.hasUI;
    },
    get cwd() {
      return bridge.info.cwd;
    },
    get sessionManager() {
      bridge.checkBound(gen);
      return bridge.session.readOnly();
    },
    modelRegistry: models,
    get model() {
      return read("model");
    },
    get scopedModels() {
      return read("scoped_models");
    },
    get thinkingLevel() {
      return read("thinking_level");
    },
    get signal() {
      return bridge.signalOf(read("run"));
    },
    isIdle: () => read("is_idle"),
    isProjectTrusted: () => read("trusted"),
    hasPendingMessages: () => read("has_pending"),
    abort: () => tell("abort"),
    shutdown: () => tell("shutdown"),
    getContextUsage: () => read("context_usage"),
    getSystemPrompt: () => read("system_prompt"),
    compact: (options = {}) => {
      const failed = (error) => options.onError?.(error);
      caller(bridge, extension)("compact", { instructions: options.customInstructions })
        .then((result) => options.onComplete?.(result), failed)
        .catch((error) => bridge.report("compact", error, ext));
    },
  };
}

// `sends`: the context of `withSession`, whose sends can be awaited.
export function commandContext(bridge, extension, { sends = false } = {}) {
  const call = caller(bridge, extension);
  const keep = (callback) => bridge.keep(callback);
  const own = {
    getSystemPromptOptions: () => {
      bridge.checkBound(extension.gen);
      return structuredClone(bridge.read(extension.ext, "prompt_options"));
    },
    waitForIdle: async () => void (await call("wait_for_idle", {})),
    newSession: ({ parentSession, setup, withSession } = {}) =>
      call("new_session", { parentSession, setup: keep(setup), then: keep(withSession) }),
    fork: (entryId, { position, withSession } = {}) =>
      call("fork", { entryId, position, then: keep(withSession) }),
    navigateTree: (targetId, options = {}) => call("navigate_tree", { targetId, ...options }),
    switchSession: (path, { withSession } = {}) =>
      call("switch_session", { path, then: keep(withSession) }),
    reload: async () => void (await call("reload", {})),
  };
  if (sends) {
    own.sendMessage = async (message, options = {}) =>
      void (await call("send_message", { message, options }));
    own.sendUserMessage = async (content, options = {}) =>
      void (await call("send_user_message", { content, options }));
  }
  return Object.assign(eventContext(bridge, extension), own);
}

function caller(bridge, { ext, gen }) {
  return (method, args, signal) => {
    bridge.checkBound(gen);
    return bridge.call(ext, method, args, signal);
  };
}
