// The exports of one package: our own names, and all others from a real pi at first touch.
import { realModule } from "./library.mjs";

// Names that loaders and Node read from any module.
const READ_BY_LOADERS = new Set([
  ...["then", "default", "__esModule", "module.exports", "toJSON", "constructor", "prototype"],
  ...["$$typeof", "nodeType", "asymmetricMatch", "inspect", "valueOf", "toString", "length"],
]);
const warned = new Set();

// `path` leads from the exports of the real package to the object that has the names. `from` are
// the packages that are asked, by default the one itself.
export function namespace(name, exports, host, { path = [], from = [name] } = {}) {
  const own = { ...exports };
  Object.defineProperty(own, "__esModule", { value: true });
  const source = { name, host, path, from };
  return new Proxy(own, {
    get: (target, key) =>
      typeof key === "symbol" || Object.hasOwn(target, key)
        ? Reflect.get(target, key)
        : fetched(target, key, source),
    has: (target, key) =>
      Reflect.has(target, key) || (typeof key === "string" && !READ_BY_LOADERS.has(key)),
  });
}

// Takes a name from the real package and keeps it.
function fetched(target, key, { name, host, path, from }) {
  if (READ_BY_LOADERS.has(key)) return undefined;
  for (const one of from) {
    let real;
    try {
      real = realModule(one);
    } catch (error) {
      warn(host, name, key, `the real ${one} cannot be loaded: ${error.message}`);
      return undefined;
    }
    if (real === undefined) {
      warn(host, name, key, "install pi's library with `ludolf install --pi-library`");
      return undefined;
    }
    const value = path.reduce((holder, step) => holder?.[step], real)?.[key];
    if (value !== undefined) {
      target[key] = value;
      return value;
    }
  }
  return undefined;
}

function warn(host, name, key, text) {
  const subject = `${name}: ${key}`;
  if (warned.has(subject)) return;
  warned.add(subject);
  const message = `An extension uses "${key}" of ${name}, which Ludolf does not provide: ${text}.`;
  host.tell("warn", { text: message });
}
