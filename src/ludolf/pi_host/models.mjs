// `ctx.modelRegistry`: models and their keys; requests go through Ludolf's providers.
export class ModelRegistry {
  #bridge;
  #extension;

  constructor(bridge, extension) {
    this.#bridge = bridge;
    this.#extension = extension;
  }

  #read(method, args = null) {
    this.#bridge.checkFresh(this.#extension.gen);
    return structuredClone(this.#bridge.read(this.#extension.ext, method, args)) ?? undefined;
  }

  #call(method, args, signal) {
    return this.#bridge.call(this.#extension.ext, method, args, signal);
  }

  getAll() {
    return this.#read("models");
  }

  getAvailable() {
    return this.#read("available_models");
  }

  find(provider, id) {
    return this.#read("find_model", { provider, id });
  }

  hasConfiguredAuth(model) {
    return this.#read("has_key", { provider: model.provider, id: model.id });
  }

  async getApiKeyAndHeaders(model) {
    try {
      const access = await this.#call("model_access", { provider: model.provider, id: model.id });
      return { ok: true, ...access };
    } catch (error) {
      return { ok: false, error: error.message };
    }
  }

  async getApiKeyForProvider(provider) {
    return (await this.#call("provider_key", { provider })) ?? undefined;
  }

  async getApiKey(model) {
    return (await this.getApiKeyAndHeaders(model)).apiKey;
  }

  getProviderAuthStatus(provider) {
    return this.#read("provider_status", { provider });
  }

  getProviderDisplayName(provider) {
    return this.#read("provider_status", { provider })?.name ?? provider;
  }

  isUsingOAuth(model) {
    return this.#read("provider_status", { provider: model.provider })?.oauth === true;
  }

  getError() {
    return undefined;
  }

  async refresh() {
    this.#bridge.memo = null;
    return { errors: [] };
  }

  async complete(model, context, options = {}) {
    const { signal, ...rest } = options;
    return this.#call("complete", { model, context, options: rest }, signal);
  }

  completeSimple(model, context, options) {
    return this.complete(model, context, options);
  }

  stream(model, context, options) {
    return this.#bridge.loader.streams().streamSimple(model, context, options);
  }

  streamSimple(model, context, options) {
    return this.#bridge.loader.streams().streamSimple(model, context, options);
  }

  registerProvider(name, config) {
    this.#extension.api.registerProvider(name, config);
  }

  unregisterProvider(name) {
    this.#extension.api.unregisterProvider(name);
  }
}
