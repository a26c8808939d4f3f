// `ctx.modelRegistry`: models and their keys; requests go through Ludolf's providers.
export function modelRegistry(bridge, extension) {
  const { ext, gen } = extension;
  const read = (method, args = null) => {
    bridge.checkFresh(gen);
    return structuredClone(bridge.read(ext, method, args)) ?? undefined;
  };
  const call = (method, args, signal) => bridge.call(ext, method, args, signal);
  const named = ({ provider, id }) => ({ provider, id });
  const access = async (model) => {
    try {
      return { ok: true, ...(await call("model_access", named(model))) };
    } catch (error) {
      return { ok: false, error: error.message };
    }
  };
  const complete = async (model, context, { signal, ...options } = {}) =>
    call("complete", { model, context, options }, signal);
  const stream = (model, context, options) =>
    bridge.loader.streams().streamSimple(model, context, options);
  const status = (provider) => read("provider_status", { provider });
  return {
    getAll: () => read("models"),
    getAvailable: () => read("available_models"),
    find: (provider, id) => read("find_model", { provider, id }),
    hasConfiguredAuth: (model) => read("has_key", named(model)),
    getApiKeyAndHeaders: access,
    getApiKey: async (model) => (await access(model)).apiKey,
    getApiKeyForProvider: async (provider) => (await call("provider_key", { provider })) ?? undefined,
    getProviderAuthStatus: status,
    getProviderDisplayName: (provider) => status(provider)?.name ?? provider,
    isUsingOAuth: (model) => status(model.provider)?.oauth === true,
    getError: () => undefined,
    async refresh() {
      bridge.memo = null;
      return { errors: [] };
    },
    complete,
    completeSimple: complete,
    stream,
    streamSimple: stream,
    registerProvider: (name, config) => extension.api.registerProvider(name, config),
    unregisterProvider: (name) => extension.api.unregisterProvider(name),
  };
}
