// The side bar: all entries as a tree of rows, of which only those in sight exist.

// Touch input needs higher rows than a mouse.
const ROW = matchMedia("(pointer: coarse)").matches ? 38 : 26;
const tree = at("tree");
const rows = document.createElement("div");
rows.className = "rows";
// Answers without text only contain tool calls, which have their own rows.
const QUIET = "qmlye";
const FILTERS = {
  usual: (index) => !QUIET.includes(data.kinds[index]),
  plain: (index) => !`${QUIET}tfb`.includes(data.kinds[index]),
  user: (index) => data.kinds[index] === "u",
  label: (index) => index in data.labels,
  all: () => true,
};
const NAMES = {
  u: "Prompt", a: "Answer", e: "Answer", r: "Failed answer", t: "Tool", f: "Failed tool", b: "Shell", c: "Compaction", s: "Branch summary",
  x: "Extension", y: "System", m: "Model", l: "Thinking level", q: "Entry",
};

let order = [];
let depths = [];
let starts = new Set();
let listed = [];
let placeOf = new Map();
let matched = null;
let cursor = -1;

// The shown branch keeps its depth; others stand before it, one step in.
function layOut() {
  order = [];
  depths = new Array(size).fill(0);
  starts = new Set();
  const waiting = [];
  push(roots, 0);
  while (waiting.length) {
    const [index, depth] = waiting.pop();
    order.push(index);
    depths[index] = depth;
    push(below.get(index) ?? [], depth);
  }

  function push(children, depth) {
    if (!children.length) return;
    const main =
      children.find((child) => onPath.has(child)) ??
      children.findLast((child) => shown[child]) ??
      children.at(-1);
    waiting.push([main, depth]);
    for (let place = children.length - 1; place >= 0; place--) {
      const child = children[place];
      if (child === main) continue;
      starts.add(child);
      waiting.push([child, depth + 1]);
    }
  }
}

function refilter() {
  const keep = FILTERS[at("filter").value] ?? FILTERS.usual;
  listed = order.filter((index) => (matched ? matched.has(index) : keep(index)));
  placeOf = new Map(listed.map((index, place) => [index, place]));
  rows.style.height = `${listed.length * ROW}px`;
  at("count").textContent = `${listed.length.toLocaleString()} of ${size.toLocaleString()}`;
  drawRows();
}

function drawRows() {
  const first = Math.max(0, Math.floor(tree.scrollTop / ROW) - 8);
  const last = Math.min(listed.length, first + Math.ceil(tree.clientHeight / ROW) + 16);
  const drawn = document.createDocumentFragment();
  const here = currentRow();
  for (let place = first; place < last; place++) drawn.append(makeRow(listed[place], place, here));
  rows.replaceChildren(drawn);
}

function makeRow(index, place, here) {
  const row = document.createElement("div");
  const kind = data.kinds[index];
  row.className = `row k-${kind}`;
  row.id = `row-${index}`;
  row.setAttribute("role", "treeitem");
  row.setAttribute("aria-level", String(depths[index] + 1));
  row.setAttribute("aria-posinset", String(place + 1));
  row.setAttribute("aria-setsize", String(listed.length));
  row.dataset.index = String(index);
  row.style.top = `${place * ROW}px`;
  row.style.height = `${ROW}px`;
  row.style.setProperty("--depth", String(Math.min(depths[index], 10)));
  row.classList.toggle("active", onPath.has(index));
  row.classList.toggle("start", starts.has(index));
  row.classList.toggle("here", index === here);
  row.classList.toggle("cursor", place === cursor);
  row.title = `${NAMES[kind]} · ${localTime(data.times[index]) ?? ""}\n${data.texts[index]}`;
  const text = document.createElement("span");
  text.className = "text";
  text.textContent = data.texts[index] || NAMES[kind];
  row.append(text);
  if (index in data.labels) {
    const label = document.createElement("span");
    label.className = "label";
    label.textContent = data.labels[index];
    row.append(label);
  }
  return row;
}

// The listed entry that stands for the current one: itself or the nearest above it.
function currentRow() {
  for (let index = currentIndex(); index >= 0; index = data.parents[index]) {
    if (placeOf.has(index)) return index;
  }
  return -1;
}

function showCurrentInTree() {
  const here = currentRow();
  if (here >= 0) revealRow(placeOf.get(here));
  drawRows();
}

function revealRow(place) {
  const top = place * ROW;
  if (top < tree.scrollTop + ROW) tree.scrollTop = Math.max(0, top - 3 * ROW);
  else if (top > tree.scrollTop + tree.clientHeight - 2 * ROW) {
    tree.scrollTop = top - tree.clientHeight + 4 * ROW;
  }
}

function moveCursor(step) {
  if (!listed.length) return;
  const from = cursor >= 0 ? cursor : (placeOf.get(currentRow()) ?? 0);
  cursor = Math.min(listed.length - 1, Math.max(0, from + step));
  revealRow(cursor);
  drawRows();
  tree.setAttribute("aria-activedescendant", `row-${listed[cursor]}`);
}

function chooseRow(index) {
  goTo(index);
  if (matched) markMatches(index);
  document.body.classList.remove("drawer");
}

tree.addEventListener("scroll", () => requestAnimationFrame(drawRows), { passive: true });
tree.addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (!row) return;
  cursor = -1;
  chooseRow(Number(row.dataset.index));
});
tree.addEventListener("keydown", (event) => {
  const page = Math.floor(tree.clientHeight / ROW) - 1;
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -size, End: size };
  if (event.key in steps) moveCursor(steps[event.key]);
  else if ((event.key === "Enter" || event.key === " ") && cursor >= 0) chooseRow(listed[cursor]);
  else return;
  event.preventDefault();
  event.stopPropagation();
});
at("filter").addEventListener("change", (event) => {
  root.classList.toggle("everything", event.target.value === "all");
  cursor = -1;
  refilter();
  showCurrentInTree();
});
whenBranchChanges.push(() => {
  layOut();
  refilter();
});

// ------------------------------------------------------------ width and drawer

const grip = at("grip");
grip.addEventListener("pointerdown", (event) => {
  event.preventDefault();
  grip.setPointerCapture(event.pointerId);
  const move = (moved) => {
    const width = Math.min(640, Math.max(200, moved.clientX));
    root.style.setProperty("--side", `${width}px`);
    store("ludolf-side", String(width));
  };
  grip.addEventListener("pointermove", move);
  grip.addEventListener("pointerup", () => grip.removeEventListener("pointermove", move), { once: true });
});

function toggleTree() {
  if (matchMedia("(max-width: 900px)").matches) document.body.classList.toggle("drawer");
  else document.body.classList.toggle("wide");
  drawRows();
}

function store(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // A browser may refuse storage; the value is then not saved.
  }
}
