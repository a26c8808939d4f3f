// `ctx`: state and actions for handlers, tools and commands. Plain objects whose members do not
// use `this`, since extensions copy them, wrap them and take methods out of them.
import { modelRegistry } from "./models.mjs";
import { makeUi } from "./ui.mjs";

function channel(bridge, { ext, gen }) {
  return {
    read(method) {
      bridge.checkBound(gen);
      return bridge.read(ext, method) ?? undefined;
    },
    tell(method, args = {}) {
      bridge.checkBound(gen);
      bridge.tell(ext, method, args);
    },
    call(method, args, signal) {
      bridge.checkBound(gen);
      return bridge.call(ext, method, args, signal);
    },
  };
}

export function eventContext(bridge, extension) {
  const { read, tell, call } = channel(bridge, extension);
  return {
    ui: makeUi(bridge, extension),
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
      bridge.checkBound(extension.gen);
      return bridge.session.readOnly();
    },
    get modelRegistry() {
      bridge.checkFresh(extension.gen);
      extension.models ??= modelRegistry(bridge, extension);
      return extension.models;
    },
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
    compact(options = {}) {
      const failed = (error) => options.onError?.(error);
      call("compact", { instructions: options.customInstructions })
        .then((result) => options.onComplete?.(result), failed)
        .catch((error) => bridge.report("compact", error, extension.ext));
    },
  };
}

// `sends`: the context of `withSession`, whose sends can be awaited.
export function commandContext(bridge, extension, { sends = false } = {}) {
  const { read, call } = channel(bridge, extension);
  const context = extend(eventContext(bridge, extension), {
    getSystemPromptOptions: () => structuredClone(read("prompt_options")),
    waitForIdle: async () => void (await call("wait_for_idle", {})),
    newSession({ parentSession, setup, withSession } = {}) {
      const callbacks = { setup: bridge.keep(setup), then: bridge.keep(withSession) };
      return call("new_session", { parentSession, ...callbacks });
    },
    fork: (entryId, { position, withSession } = {}) =>
      call("fork", { entryId, position, then: bridge.keep(withSession) }),
    navigateTree: (targetId, options = {}) => call("navigate_tree", { targetId, ...options }),
    switchSession: (path, { withSession } = {}) =>
      call("switch_session", { path, then: bridge.keep(withSession) }),
    reload: async () => void (await call("reload", {})),
  });
  if (!sends) return context;
  return extend(context, {
    sendMessage: async (message, options = {}) =>
      void (await call("send_message", { message, options })),
    sendUserMessage: async (content, options = {}) =>
      void (await call("send_user_message", { content, options })),
  });
}

const extend = (context, more) =>
  Object.defineProperties(context, Object.getOwnPropertyDescriptors(more));
