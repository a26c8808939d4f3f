// Buttons, keys, copying, the chart, and start-up.

function toast(text) {
  const place = at("toast");
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => place.classList.remove("shown"), 1600);
}

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  toast(said);
}

function textToCopy(button) {
  const box = button.closest(".code, .block");
  if (box) return [...box.querySelectorAll("pre")].map((pre) => pre.textContent).join("\n");
  const parts = button.closest("article")?.querySelectorAll(":scope > .md") ?? [];
  return [...parts].map((part) => part.innerText).join("\n\n");
}

function copyLink(index) {
  history.replaceState(null, "", hashOf(index));
  copy(location.href, "Link copied");
}

function toggle(name, selector) {
  open[name] = !open[name];
  at(name).setAttribute("aria-pressed", String(open[name]));
  for (const element of articles.values()) setOpen(element, selector, open[name]);
}

function toggleTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const theme = (root.dataset.theme ?? system) === "dark" ? "light" : "dark";
  root.dataset.theme = theme;
  store("ludolf-theme", theme);
}

async function saveLines() {
  const link = document.createElement("a");
  link.download = `${data.name || "session"}.jsonl`;
  // A live page does not contain the file; its server provides it.
  link.href = data.mark ? "session.jsonl" : URL.createObjectURL(await unpackLines());
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function unpackLines() {
  const packed = Uint8Array.from(atob(at("lines").textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Blob([await new Response(stream).arrayBuffer()], { type: "application/x-ndjson" });
}

function showDialog(name) {
  const dialog = at(name);
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

// ------------------------------------------------------------ moving

function moveBy(step, kind) {
  let place = current ? path.indexOf(currentIndex()) : -1;
  for (place += step; place >= 0 && place < path.length; place += step) {
    const element = articles.get(path[place]);
    if (element && isShown(element) && (!kind || element.classList.contains(kind))) {
      goTo(path[place]);
      return;
    }
  }
}

// The nearest fork above the current entry decides which branches are meant.
function otherBranch(step) {
  const here = Math.max(0, path.indexOf(currentIndex()));
  for (let place = here; place >= 0; place--) {
    const siblings = waysFrom(data.parents[path[place]]);
    if (siblings.length < 2) continue;
    const next = siblings.indexOf(path[place]) + step;
    goTo(siblings[(next + siblings.length) % siblings.length]);
    return;
  }
  toast("No other branch here");
}

const KEYS = {
  j: () => moveBy(1),
  k: () => moveBy(-1),
  n: () => moveBy(1, "user"),
  p: () => moveBy(-1, "user"),
  "]": () => otherBranch(1),
  "[": () => otherBranch(-1),
  g: () => scrollTo({ top: 0 }),
  G: () => goTo(path.at(-1)),
  "/": () => box.select(),
  t: () => toggle("thinking", ".thinking"),
  o: () => toggle("output", ".call"),
  b: toggleTree,
  y: () => copyLink(currentIndex()),
  d: toggleTheme,
  "?": () => showDialog("keys"),
  Escape: () => document.body.classList.remove("drawer"),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, dialog")) return;
  const act = Object.hasOwn(KEYS, event.key) ? KEYS[event.key] : null;
  if (!act) return;
  event.preventDefault();
  act();
});

// ------------------------------------------------------------ clicks

const BUTTONS = {
  menu: toggleTree,
  shade: () => document.body.classList.remove("drawer"),
  thinking: KEYS.t,
  output: KEYS.o,
  save: saveLines,
  theme: toggleTheme,
  help: KEYS["?"],
};
for (const [name, act] of Object.entries(BUTTONS)) at(name).addEventListener("click", act);

document.addEventListener("click", (event) => {
  const element = event.target;
  if (element.closest(".copy")) {
    event.preventDefault();
    copy(textToCopy(element.closest(".copy")), "Copied");
    return;
  }
  const link = element.closest("a[href^='#entry-']");
  if (link && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    const index = link.dataset.go ? Number(link.dataset.go) : Number(link.closest("article")?.dataset.i);
    if (link.classList.contains("link")) copyLink(index);
    else goTo(index);
    return;
  }
  if (element.matches("figure.image img, .md img")) {
    at("viewer").replaceChildren(element.cloneNode());
    showDialog("viewer");
  } else if (element.closest("dialog") && !element.closest("dl")) element.closest("dialog").close();
});

// ------------------------------------------------------------ the chart

function watchChart() {
  const plot = at("chart")?.querySelector(".plot");
  if (!plot) return;
  const line = document.createElement("div");
  const tip = document.createElement("div");
  line.className = "cursor";
  tip.className = "tip";
  plot.append(line, tip);
  const nearest = (event) => {
    const area = plot.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - area.left) / area.width));
    return Math.round(share * (data.chart.length - 1));
  };
  plot.addEventListener("pointermove", (event) => {
    const place = nearest(event);
    const [index, context, cost] = data.chart[place];
    const share = place / (data.chart.length - 1);
    line.style.left = tip.style.left = `${share * 100}%`;
    tip.classList.toggle("left", share > 0.7);
    tip.textContent = `${context.toLocaleString()} tokens · $${cost.toFixed(3)}\n${data.texts[index]}`;
  });
  plot.addEventListener("click", (event) => goTo(data.chart[nearest(event)][0]));
}

// ------------------------------------------------------------ following the reader

let watching = false;
addEventListener("scroll", () => {
  if (watching || performance.now() < ledUntil) return;
  watching = true;
  requestAnimationFrame(() => {
    watching = false;
    const area = conversation.getBoundingClientRect();
    const found = document.elementFromPoint(area.left + area.width / 2, at("bar").offsetHeight + 40);
    const element = found?.closest("article");
    if (element) setCurrent(element);
  });
}, { passive: true });
addEventListener("resize", drawRows, { passive: true });
watchChart();
addEventListener("hashchange", followHash);
addEventListener("popstate", followHash);

tree.replaceChildren(rows);
layOut();
refilter();
prepare(document.querySelector(".summary"));
watchCode(conversation);
if (location.hash) followHash();
const later = window.requestIdleCallback ?? setTimeout;
later(() => prepare(conversation));
