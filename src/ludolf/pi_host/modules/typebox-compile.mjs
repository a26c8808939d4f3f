// `typebox/compile`: all of it comes from the real library. That reads 700 files, and extensions
// compile schemas while they load: a validator is made when it is first used.
import { realModule, realPi } from "./library.mjs";
import { namespace } from "./namespace.mjs";

const NAME = "typebox/compile";

export default (host) => namespace(NAME, realPi() === null ? {} : { Compile: laterCompiled }, host);

function laterCompiled(...schema) {
  let made;
  const validator = () => (made ??= realModule(NAME).Compile(...schema));
  return new Proxy({}, {
    get(_, key) {
      if (key === "then") return undefined;
      const value = validator()[key];
      return typeof value === "function" ? value.bind(made) : value;
    },
    has: (_, key) => key in validator(),
    getPrototypeOf: () => Object.getPrototypeOf(validator()),
  });
}
