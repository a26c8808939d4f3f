// Logins and model lists of providers. A provider has pi's configuration, with `oauth`, or is one of
// pi's provider objects, with `auth.oauth`.
const CODE_PROMPT = "Paste the authorization code";
const never = new Promise(() => {});

// What a login asks of the user; `over` is aborted when the login has ended.
export class LoginCallbacks {
  constructor(bridge, { ext, login }, over) {
    const call = async (method, args) => {
      const value = await bridge.call(ext, `login.${method}`, { login, ...args }, over);
      // The login has ended without this answer.
      return over.aborted ? never : (value ?? undefined);
    };
    const tell = (method, args) => bridge.tell(ext, `login.${method}`, { login, ...args });
    this.text = (message, placeholder) => call("ask", { message, placeholder });
    this.choose = async (message, options) => {
      const labels = options.map((option) => option.label);
      const label = await call("choose", { message, labels });
      return options.find((option) => option.label === label)?.id;
    };
    this.open = (url, instructions) => tell("open", { url, instructions });
    this.code = (userCode, url) => tell("open", { url, code: userCode });
    this.progress = (message) => tell("progress", { message });
  }
}

export async function logIn(provider, makeCallbacks, signal) {
  const end = new AbortController();
  const callbacks = makeCallbacks(end.signal);
  try {
    if (provider.oauth) return await provider.oauth.login(legacyCallbacks(callbacks, signal));
    return await provider.auth.oauth.login(interaction(callbacks, signal));
  } finally {
    end.abort();
  }
}

function legacyCallbacks(callbacks, signal) {
  return {
    onAuth: ({ url, instructions }) => callbacks.open(url, instructions),
    onDeviceCode: ({ userCode, verificationUri }) => callbacks.code(userCode, verificationUri),
    onPrompt: ({ message, placeholder }) => callbacks.text(message, placeholder),
    onProgress: (message) => callbacks.progress(message),
    onManualCodeInput: () => callbacks.text(CODE_PROMPT),
    onSelect: ({ message, options }) => callbacks.choose(message, options),
    signal,
  };
}

// The form that provider objects use.
function interaction(callbacks, signal) {
  return {
    signal,
    prompt: async ({ type, message, placeholder, options }) => {
      if (type !== "select") return callbacks.text(message, placeholder);
      const chosen = await callbacks.choose(message, options);
      if (chosen === undefined) throw new Error("Login cancelled");
      return chosen;
    },
    notify: (event) => {
      if (event.type === "auth_url") callbacks.open(event.url, event.instructions);
      else if (event.type === "device_code") callbacks.code(event.userCode, event.verificationUri);
      else callbacks.progress(String(event.message ?? ""));
    },
  };
}

export async function renewed(provider, credential, signal) {
  if (provider.oauth) return provider.oauth.refreshToken(credential, signal);
  return provider.auth.oauth.refresh(credential, signal);
}

export async function accessOf(provider, credential) {
  if (provider.oauth) return { apiKey: await provider.oauth.getApiKey(credential) };
  return provider.auth.oauth.toAuth(credential);
}

// `keep` stores a list for the next start.
export async function listedModels(provider, { credential, stored, network, force }, keep, signal) {
  const context = {
    credential: credential ?? undefined,
    stored: stored ?? undefined,
    allowNetwork: network,
    force: network ? force : undefined,
    signal,
    publish: async ({ persist, update }) => {
      if (signal.aborted) return false;
      if (persist !== undefined) await keep(persist);
      if (signal.aborted) return false;
      update?.();
      return true;
    },
  };
  const listed = await provider.refreshModels(context);
  return typeof provider.getModels === "function" ? [...provider.getModels()] : listed;
}
