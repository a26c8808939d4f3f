// `ctx.modelRegistry`: models and their keys; requests go through Ludolf's providers.
export class ModelRegistry {
  constructor(bridge, extension) {
    this._bridge = bridge;
    this._extension = extension;
  }

  _read(method, args = null) {
    this._bridge.checkFresh(this._extension.gen);
    return structuredClone(this._bridge.read(this._extension.ext, method, args)) ?? undefined;
  }

  _call(method, args, signal) {
    return this._bridge.call(this._extension.ext, method, args, signal);
  }

  getAll() {
    return this._read("models");
  }

  getAvailable() {
    return this._read("available_models");
  }

  find(provider, id) {
    return this._read("find_model", { provider, id });
  }

  hasConfiguredAuth(model) {
    return this._read("has_key", { provider: model.provider, id: model.id });
  }

  async getApiKeyAndHeaders(model) {
    try {
      const access = await this._call("model_access", { provider: model.provider, id: model.id });
      return { ok: true, ...access };
    } catch (error) {
      return { ok: false, error: error.message };
    }
  }

  async getApiKeyForProvider(provider) {
    return (await this._call("provider_key", { provider })) ?? undefined;
  }

  async getApiKey(model) {
    return (await this.getApiKeyAndHeaders(model)).apiKey;
  }

  getProviderAuthStatus(provider) {
    return this._read("provider_status", { provider });
  }

  getProviderDisplayName(provider) {
    return this._read("provider_status", { provider })?.name ?? provider;
  }

  isUsingOAuth(model) {
    return this._read("provider_status", { provider: model.provider })?.oauth === true;
  }

  getError() {
    return undefined;
  }

  // Lets the providers of extensions fetch their lists of models.
  async refresh({ providers, allowNetwork, force, signal } = {}) {
    const asked = { providers: providers && [...providers], allowNetwork, force };
    const errors = await this._call("refresh_models", asked, signal);
    const found = Object.entries(errors ?? {}).map(([name, text]) => [name, new Error(text)]);
    return { aborted: signal?.aborted ?? false, errors: new Map(found) };
  }

  async complete(model, context, options = {}) {
    const { signal, ...rest } = options;
    return this._call("complete", { model, context, options: rest }, signal);
  }

  completeSimple(model, context, options) {
    return this.complete(model, context, options);
  }

  stream(model, context, options) {
    return this._bridge.loader.streams().streamSimple(model, context, options);
  }

  streamSimple(model, context, options) {
    return this._bridge.loader.streams().streamSimple(model, context, options);
  }

  async getProviderAuth(provider) {
    const apiKey = await this.getApiKeyForProvider(provider);
    return apiKey === undefined ? undefined : { auth: { apiKey } };
  }

  getProvider(id) {
    const getModels = () => this.getAll().filter((model) => model.provider === id);
    const known = getModels().length > 0 || this._registered().has(id);
    return known ? { id, name: this.getProviderDisplayName(id), getModels } : undefined;
  }

  // What extensions registered, by name.
  _registered() {
    const all = [...this._bridge.extensions.values()];
    return new Map(all.flatMap((extension) => [...extension.providers]));
  }

  getRegisteredProviderIds() {
    return [...this._registered().keys()];
  }

  getRegisteredProviderConfig(name) {
    const config = this._registered().get(name);
    return config?.id === undefined ? config : undefined;
  }

  getRegisteredNativeProvider(name) {
    const provider = this._registered().get(name);
    return provider?.id === undefined ? undefined : provider;
  }

  registerProvider(name, config) {
    this._extension.api.registerProvider(name, config);
  }

  unregisterProvider(name) {
    this._extension.api.unregisterProvider(name);
  }
}
