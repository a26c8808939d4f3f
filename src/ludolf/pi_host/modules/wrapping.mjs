// Wrap text at words; styles and hyperlinks continue on the next line.
import { closing, later, nextLink, parts, visibleWidth } from "./columns.mjs";

const SGR = /^\x1b\[([\d;:]*)m$/;
// What switches a style off, and the styles that it ends.
const OFF = { 22: ["1", "2"], 23: ["3"], 24: ["4"], 25: ["5"], 27: ["7"], 28: ["8"], 29: ["9"] };
const ORDER = ["1", "2", "3", "4", "5", "7", "8", "9", "fg", "bg"];
// Scripts that break between characters instead of at spaces.
const BREAKING = ["Han", "Hiragana", "Katakana", "Hangul", "Bopomofo"];
const CJK = later(
  () => new RegExp(`[${BREAKING.map((name) => `\\p{Script_Extensions=${name}}`).join("")}]`, "u"),
);

// The styles in effect, as a terminal keeps them.
class Styles {
  constructor() {
    this.on = new Map();
    this.link = "";
  }

  take(code) {
    this.link = nextLink(this.link, code);
    const match = SGR.exec(code);
    if (match === null) return;
    const numbers = match[1] === "" ? ["0"] : match[1].split(";");
    for (let at = 0; at < numbers.length; at += 1) at = this.set(numbers, at);
  }

  set(numbers, at) {
    const number = numbers[at] === "" ? "0" : numbers[at];
    const colour = number === "38" ? "fg" : number === "48" ? "bg" : null;
    if (colour !== null) {
      const count = numbers[at + 1] === "5" ? 3 : numbers[at + 1] === "2" ? 5 : 1;
      if (count > 1 && at + count <= numbers.length) {
        this.on.set(colour, numbers.slice(at, at + count).join(";"));
        return at + count - 1;
      }
      return at;
    }
    const value = Number(number);
    if (value === 0) this.on.clear();
    else if (OFF[number]) for (const name of OFF[number]) this.on.delete(name);
    else if (value === 39) this.on.delete("fg");
    else if (value === 49) this.on.delete("bg");
    else if ((value >= 30 && value <= 37) || (value >= 90 && value <= 97)) this.on.set("fg", number);
    else if ((value >= 40 && value <= 47) || (value >= 100 && value <= 107)) this.on.set("bg", number);
    else if (ORDER.includes(number)) this.on.set(number, number);
    return at;
  }

  // What a new line begins with.
  opening() {
    const codes = ORDER.filter((name) => this.on.has(name)).map((name) => this.on.get(name));
    return (codes.length ? `\x1b[${codes.join(";")}m` : "") + this.link;
  }

  // What a line ends with: an underline or a link must not reach the padding.
  ending() {
    return (this.on.has("4") ? "\x1b[24m" : "") + (this.link ? closing(this.link) : "");
  }
}

export function wrapTextWithAnsi(text, width) {
  if (!text) return [""];
  const styles = new Styles();
  const lines = [];
  for (const line of text.replace(/\r\n?/g, "\n").split("\n")) {
    const opening = lines.length ? styles.opening() : "";
    lines.push(...wrapLine(opening + line, width));
    for (const part of parts(line)) if (part.code) styles.take(part.code);
  }
  return lines;
}

function wrapLine(line, width) {
  if (visibleWidth(line) <= width) return [line];
  const styles = new Styles();
  const done = [];
  let row = "";
  let used = 0;
  for (const word of words(line)) {
    // Spaces with a sequence among them are kept like a word, as pi does.
    const blank = word.text.trim() === "";
    if (word.width > width && !blank) {
      if (row) done.push(row + styles.ending());
      const broken = breakWord(word.text, width, styles);
      done.push(...broken.slice(0, -1));
      row = broken[broken.length - 1];
      used = visibleWidth(row);
      continue;
    }
    if (used + word.width > width && used > 0) {
      done.push(row.trimEnd() + styles.ending());
      row = blank ? styles.opening() : styles.opening() + word.text;
      used = blank ? 0 : word.width;
    } else {
      row += word.text;
      used += word.width;
    }
    for (const part of parts(word.text)) if (part.code) styles.take(part.code);
  }
  if (row) done.push(row);
  return done.length ? done.map((one) => one.trimEnd()) : [""];
}

// Words and runs of spaces; a sequence belongs to the word after it.
function words(line) {
  const found = [];
  let text = "";
  let width = 0;
  let space = false;
  let pending = "";
  const finish = () => {
    if (text) found.push({ text, width });
    text = "";
    width = 0;
  };
  for (const part of parts(line)) {
    if (part.code) {
      pending += part.code;
      continue;
    }
    const isSpace = part.text === " ";
    const breaks = !isSpace && CJK().test(part.text);
    if (text && (isSpace !== space || breaks)) finish();
    text += pending + part.text;
    width += part.width;
    space = isSpace;
    pending = "";
    if (breaks) finish();
  }
  if (pending) {
    if (text) text += pending;
    else if (found.length) found[found.length - 1].text += pending;
    else text = pending;
  }
  finish();
  return found;
}

function breakWord(word, width, styles) {
  const lines = [];
  let row = styles.opening();
  let used = 0;
  for (const part of parts(word)) {
    if (part.code) {
      row += part.code;
      styles.take(part.code);
      continue;
    }
    if (used + part.width > width) {
      lines.push(row + styles.ending());
      row = styles.opening();
      used = 0;
    }
    row += part.text;
    used += part.width;
  }
  if (row) lines.push(row);
  return lines.length ? lines : [""];
}
