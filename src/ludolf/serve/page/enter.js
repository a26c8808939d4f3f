// The token comes in the fragment of the address and leaves it before anything else happens.

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

function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!found) return null;
  history.replaceState(null, "", location.pathname);
  kept.set("ludolf-token", found);
  return found;
}

let token = takeToken() ?? kept.get("ludolf-token");
