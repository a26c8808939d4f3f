// The token comes in the fragment of the address and leaves it before anything else happens.

const ENTRY = new URLSearchParams(location.hash.slice(1)).get("token");
if (ENTRY) history.replaceState(null, "", location.pathname);
const kept = {
  get: (name) => {
    try {
      return sessionStorage.getItem(name);
    } catch {
      return null;
    }
  },
  set: (name, value) => {
    try {
      if (value) sessionStorage.setItem(name, value);
      else sessionStorage.removeItem(name);
    } catch {
      // A browser may refuse storage; the value is then lost with the page.
    }
  },
};
if (ENTRY) kept.set("ludolf-token", ENTRY);
let token = ENTRY ?? kept.get("ludolf-token");
