// Colour code when it becomes visible: one pass over its text, which is not changed.

// A larger text is a log or data; colour would only make the page slow.
const LARGEST = 200000;
const AROUND = "600px 0px";
const PRINTING_MS = 3000;
// Only a very long line has more in one part.
const MOST_PIECES = 4000;

// ------------------------------------------------------------ from tokens to places

function partsOf(pre) {
  const inside = pre.querySelectorAll(".part");
  return inside.length ? inside : [pre];
}

let latest = { box: null, parts: null };

function piecesOf(part) {
  const box = part.closest("[data-lang]");
  if (latest.box !== box) latest = { box, parts: piecesIn(box) };
  return latest.parts.get(part).slice(0, MOST_PIECES);
}

// The ranges to colour in each part of a box. Its lines are one text, also across a fold.
function piecesIn(box) {
  const parts = new Map();
  const nodes = [];
  let text = "";
  for (const pre of box.querySelectorAll("pre")) {
    if (nodes.length) text += "\n";
    for (const part of partsOf(pre)) {
      parts.set(part, []);
      const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) {
        nodes.push({ node: walker.currentNode, start: text.length, part });
        text += walker.currentNode.data;
      }
    }
  }
  const language = text.length > LARGEST ? null : languageOf(box.dataset.lang);
  if (!language) return parts;
  let place = 0;
  for (const [kind, start, end] of tokensOf(text, language)) {
    while (start >= nodes[place].start + nodes[place].node.length) place++;
    for (let reach = place; reach < nodes.length && nodes[reach].start < end; reach++) {
      const { node, start: offset, part } = nodes[reach];
      const from = Math.max(0, start - offset);
      const to = Math.min(node.length, end - offset);
      if (from < to) parts.get(part).push({ kind, node, from, to });
    }
  }
  return parts;
}

// ------------------------------------------------------------ from places to colours

// Highlights colour a text without changing it; a browser without them gets elements instead.
const KINDS = [..."acfknst"];
const paints = typeof Highlight === "function" && CSS.highlights ? new Map() : null;
for (const kind of paints ? KINDS : []) {
  paints.set(kind, new Highlight());
  CSS.highlights.set(`t-${kind}`, paints.get(kind));
}
const near = new Set();
const coloured = new Map();
const rendered = new WeakSet();

function colour(part) {
  if (coloured.has(part) || rendered.has(part)) return;
  const pieces = piecesOf(part);
  if (!paints) {
    rendered.add(part);
    for (const piece of pieces.reverse()) wrap(piece);
    return;
  }
  const ranges = pieces.map(({ kind, node, from, to }) => ({
    paint: paints.get(kind),
    range: new StaticRange({ startContainer: node, startOffset: from, endContainer: node, endOffset: to }),
  }));
  for (const { paint, range } of ranges) paint.add(range);
  coloured.set(part, ranges);
}

// Each change of the page costs time for all coloured text, so distant text is not coloured.
function fade(part) {
  for (const { paint, range } of coloured.get(part) ?? []) paint.delete(range);
  coloured.delete(part);
}

// From the last piece of a text to the first, so that the offsets before it stay valid.
function wrap({ kind, node, from, to }) {
  const span = document.createElement("span");
  span.className = `t-${kind}`;
  node.splitText(to);
  const inside = node.splitText(from);
  inside.replaceWith(span);
  span.append(inside);
}

// ------------------------------------------------------------ when

const sight = new IntersectionObserver((changes) => {
  for (const { target, isIntersecting } of changes) {
    if (isIntersecting) {
      near.add(target);
      colour(target);
    } else if (near.delete(target)) fade(target);
  }
}, { rootMargin: AROUND });

function watchCode(within) {
  for (const pre of within.querySelectorAll("[data-lang] pre")) {
    if (!languageOf(pre.closest("[data-lang]").dataset.lang)) continue;
    for (const part of partsOf(pre)) sight.observe(part);
  }
}

// In print everything is visible, except folded text.
addEventListener("beforeprint", () => {
  const end = performance.now() + PRINTING_MS;
  for (const pre of document.querySelectorAll("main [data-lang] pre")) {
    if (performance.now() > end) break;
    if (!pre.closest("details:not([open])")) partsOf(pre).forEach(colour);
  }
});
addEventListener("afterprint", () => {
  for (const part of [...coloured.keys()]) if (!near.has(part)) fade(part);
});
