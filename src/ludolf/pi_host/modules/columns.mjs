// Widths of text in terminal columns, escape sequences, and cutting by columns.
import { isWide } from "./wide.mjs";

// CSI that ends in one of these letters, OSC and APC up to BEL or ST.
const SEQUENCE = /\x1b(?:\[[^mGKHJ\x1b]*[mGKHJ]|[\]_][^\x07\x1b]*(?:\x07|\x1b\\))/y;
const ALL_SEQUENCES = new RegExp(SEQUENCE.source, "g");
const PLAIN = /^[\x20-\x7e]*$/;
// Made when they are first used: the tables of Unicode take 40 ms to build.
export const later = (make) => {
  let made;
  return () => (made ??= make());
};
const pattern = (source) => later(() => new RegExp(`^${source}$`, "v"));
const graphemes = later(() => new Intl.Segmenter(undefined, { granularity: "grapheme" }));
const EMOJI = pattern(String.raw`\p{RGI_Emoji}`);
const MARK = pattern(String.raw`\p{Mark}`);
const UNSEEN = String.raw`\p{Default_Ignorable_Code_Point}\p{Control}\p{Mark}\p{Surrogate}`;
const HIDDEN = pattern(String.raw`[${UNSEEN}\p{Format}]`);
const NOTHING = pattern(`[${UNSEEN}]+`);
// Marks that terminals give a column of their own.
const SPACING = pattern(
  String.raw`(?:[\p{Spacing_Mark}--[\u1734\u302e\u302f]]` +
    String.raw`|[\u065f\u0f7f\u102b\u102c\u1031\u1033-\u1035\u1038\u103a-\u103e])`,
);
const AM_VOWELS = new Set([0x0e33, 0x0eb3]);
export const TAB = 3;

// The escape sequence at a position of a text, or "".
export function sequenceAt(text, at) {
  if (text.charCodeAt(at) !== 0x1b) return "";
  SEQUENCE.lastIndex = at;
  return SEQUENCE.exec(text)?.[0] ?? "";
}

export function stripSequences(text) {
  return text.includes("\x1b") ? text.replace(ALL_SEQUENCES, "") : text;
}

// The columns of one grapheme.
export function graphemeWidth(grapheme) {
  if (grapheme === "\t") return TAB;
  if (grapheme.length === 1 && grapheme >= " " && grapheme <= "~") return 1;
  const chars = [...grapheme];
  if (chars.every((char) => SPACING().test(char))) return chars.length;
  if (NOTHING().test(grapheme)) return 0;
  if (EMOJI().test(grapheme)) return 2;
  let width = 0;
  let base = false;
  let marked = false;
  for (const char of chars) {
    const point = char.codePointAt(0);
    const columns = isWide(point) ? 2 : 1;
    if (base && SPACING().test(char)) {
      width += 1;
      marked = false;
    } else if (HIDDEN().test(char)) {
      marked = base && (marked || MARK().test(char));
    } else if (!base) {
      if (point >= 0x1f1e6 && point <= 0x1f1ff) return 2;
      base = true;
      width += columns;
    } else {
      const form = point >= 0xff00 && point <= 0xffef;
      if (marked || form) width += columns;
      else if (AM_VOWELS.has(point)) width += 1;
      marked = false;
    }
  }
  return width;
}

export function visibleWidth(text) {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes().segment(stripSequences(text))) width += graphemeWidth(segment);
  return width;
}

// The parts of a text: { text, width } for each grapheme, { code } for each escape sequence.
export function* parts(text) {
  let at = 0;
  while (at < text.length) {
    const code = sequenceAt(text, at);
    if (code) {
      yield { code };
      at += code.length;
      continue;
    }
    let end = at + 1;
    while (end < text.length && !sequenceAt(text, end)) end += 1;
    for (const { segment } of graphemes().segment(text.slice(at, end))) {
      yield { text: segment, width: graphemeWidth(segment) };
    }
    at = end;
  }
}

// The columns from `start`, at most `length`; sequences before them stay in effect.
export function sliceByColumn(line, start, length, strict = false) {
  const end = start + length;
  if (length <= 0) return "";
  let column = 0;
  let result = "";
  let pending = "";
  for (const part of parts(line)) {
    if (part.code) {
      if (column < start) pending += part.code;
      else if (column < end) result += part.code;
      continue;
    }
    if (column >= end) break;
    const fits = !strict || column + part.width <= end;
    if (column >= start && fits) {
      result += pending + part.text;
      pending = "";
    }
    column += part.width;
  }
  return result;
}

const RESET = "\x1b[0m";

// Cuts a text to a width; `ellipsis` replaces what is cut, `pad` fills the line with spaces.
export function truncateToWidth(text, maxWidth, ellipsis = "...", pad = false) {
  if (maxWidth <= 0) return "";
  const whole = visibleWidth(text);
  if (whole <= maxWidth) return pad ? text + " ".repeat(maxWidth - whole) : text;
  const mark = fitting(ellipsis, maxWidth);
  const room = maxWidth - mark.width;
  let kept = "";
  let width = 0;
  let link = "";
  let pending = ""; // sequences count only with a character after them
  for (const part of room > 0 ? parts(text) : []) {
    if (part.code) {
      pending += part.code;
      continue;
    }
    if (width + part.width > room) break;
    for (const { code } of parts(pending)) link = nextLink(link, code);
    kept += pending + part.text;
    width += part.width;
    pending = "";
  }
  const close = link ? closing(link) : "";
  const end = mark.text ? `${RESET}${mark.text}${RESET}` : RESET;
  const cut = `${kept}${close}${end}`;
  return pad ? cut + " ".repeat(Math.max(0, maxWidth - width - mark.width)) : cut;
}

function fitting(text, maxWidth) {
  let kept = "";
  let width = 0;
  for (const part of parts(text)) {
    if (!part.code && width + part.width > maxWidth) break;
    kept += part.code ?? part.text;
    width += part.code ? 0 : part.width;
  }
  return { text: kept, width };
}

// The hyperlink that is open after a sequence: its opening, or "".
export function nextLink(link, code) {
  if (!code.startsWith("\x1b]8;")) return link;
  const target = code.slice(4).replace(/(?:\x07|\x1b\\)$/, "");
  return target.endsWith(";") || !target.includes(";") ? "" : code;
}

export function closing(link) {
  return link.endsWith("\x07") ? "\x1b]8;;\x07" : "\x1b]8;;\x1b\\";
}
