// `pi`: the object through which an extension registers and acts.
const TYPES = { boolean: "boolean", string: "string" };

export function makeApi(bridge, extension) {
  const { ext, gen, path } = extension;
  const fresh = () => bridge.checkFresh(gen);
  const bound = () => bridge.checkBound(gen);
  const send = (frame) => {
    fresh();
    bridge.wire.send({ ...frame, ext });
  };
  const tell = (method, args) => {
    bound();
    bridge.tell(ext, method, args);
  };
  const ask = (method, args = {}) => {
    bound();
    return bridge.ask(ext, method, args);
  };
  const read = (method) => {
    bound();
    return bridge.read(ext, method) ?? undefined;
  };
  const said = (method, args) => {
    tell(method, args);
    bridge.tick();
  };
  return {
    // -------------------------------------------------------- registration
    on(event, handler) {
      fresh();
      return bridge.addHook(extension, event, handler);
    },
    registerTool(tool) {
      if (tool?.parameters?.type !== "object") {
        throw new Error(
          `Tool "${tool?.name}" registered by extension "${path}" must define an object ` +
            "parameter schema.",
        );
      }
      extension.tools.set(tool.name, tool);
      send({ t: "tool", def: toolFields(tool) });
    },
    registerCommand(name, options) {
      extension.commands.set(name, options);
      const completes = typeof options.getArgumentCompletions === "function";
      send({ t: "command", name, description: options.description, completes });
    },
    registerFlag(name, options) {
      const type = TYPES[options.type];
      if (options.default !== undefined && typeof options.default !== type) {
        const given = typeof options.default;
        throw new Error(`Invalid default for flag "${name}": expected ${type}, got ${given}`);
      }
      send({ t: "flag", name, type, default: options.default, description: options.description });
    },
    registerShortcut(key, options) {
      extension.shortcuts.set(key, options);
      send({ t: "shortcut", key, description: options.description });
    },
    // For terminals only.
    registerMessageRenderer: fresh,
    registerEntryRenderer: fresh,
    registerMarkdownTransformer: fresh,
    registerProvider(name, config) {
      registerProvider(extension, send, name, config);
    },
    unregisterProvider(name) {
      extension.providers.delete(name);
      send({ t: "unprovider", name });
    },
    // -------------------------------------------------------- state
    getFlag: (name) => {
      fresh();
      return bridge.ask(ext, "flag", { name }) ?? undefined;
    },
    getSessionName: () => read("name"),
    getActiveTools: () => [...read("active_tools")],
    getAllTools: () => structuredClone(read("all_tools")),
    getCommands: () => structuredClone(read("commands")),
    getThinkingLevel: () => read("thinking_level"),
    // -------------------------------------------------------- actions
    sendMessage: (message, options = {}) => said("send_message", { message, options }),
    sendUserMessage: (content, options = {}) => said("send_user_message", { content, options }),
    appendEntry: (customType, data) => void ask("append_entry", { customType, data }),
    setSessionName: (name) => void ask("set_name", { name }),
    setLabel: (id, label) => void ask("set_label", { id, label }),
    setActiveTools: (names) => void ask("set_active_tools", { names }),
    setModel: async (model) => ask("set_model", { provider: model.provider, id: model.id }),
    setThinkingLevel: (level) => void ask("set_thinking_level", { level }),
    exec: async (command, args = [], options = {}) => {
      bound();
      const { cwd, timeout, signal } = options;
      return bridge.call(ext, "exec", { command, args, cwd, timeout }, signal);
    },
    events: makeBus(bridge, extension),
  };
}

function toolFields(tool) {
  return {
    name: tool.name,
    label: tool.label,
    description: tool.description,
    parameters: tool.parameters,
    promptSnippet: tool.promptSnippet,
    promptGuidelines: tool.promptGuidelines,
    executionMode: tool.executionMode,
    constrainedSampling: tool.constrainedSampling || undefined,
    prepares: typeof tool.prepareArguments === "function",
  };
}

function registerProvider(extension, send, name, config) {
  if (typeof name !== "string") {
    const provider = name;
    extension.providers.set(provider.id, provider);
    const models = provider.getModels?.() ?? provider.models ?? [];
    const given = { name: provider.name, baseUrl: provider.baseUrl, api: provider.api, models };
    const account = accountOf(provider.auth?.oauth, provider.refreshModels);
    return send({ t: "provider", name: provider.id, config: given, streams: true, ...account });
  }
  if (config === undefined) {
    throw new Error("Provider config is required when registering by name");
  }
  const defined = Object.entries(config).filter(([, value]) => value !== undefined);
  const whole = { ...extension.providers.get(name), ...Object.fromEntries(defined) };
  extension.providers.set(name, whole);
  const { streamSimple, refreshModels, oauth, ...data } = whole;
  const account = accountOf(oauth, refreshModels);
  send({ t: "provider", name, config: data, streams: !!streamSimple, ...account });
}

function accountOf(oauth, refreshModels) {
  return {
    login: oauth ? (oauth.name ?? "") : undefined,
    refreshes: typeof refreshModels === "function",
    adapts: typeof oauth?.modifyModels === "function",
  };
}

function makeBus(bridge, extension) {
  return {
    on(channel, handler) {
      bridge.checkFresh(extension.gen);
      const item = { handler, extension };
      bridge.bus.set(channel, [...(bridge.bus.get(channel) ?? []), item]);
      return () => {
        const left = (bridge.bus.get(channel) ?? []).filter((one) => one !== item);
        bridge.bus.set(channel, left);
      };
    },
    emit(channel, data) {
      bridge.checkFresh(extension.gen);
      for (const { handler, extension: owner } of bridge.bus.get(channel) ?? []) {
        const failed = (error) => bridge.report(`events:${channel}`, error, owner.ext);
        try {
          Promise.resolve(handler(data)).catch(failed);
        } catch (error) {
          failed(error);
        }
      }
    },
  };
}
