// Components without a terminal: they keep what they are given and render plain lines.
import { truncateToWidth, visibleWidth } from "./columns.mjs";
import { wrapTextWithAnsi } from "./wrapping.mjs";

const plain = (text) => text;

export class Component {
  invalidate() {}

  render() {
    return [];
  }

  handleInput() {}

  handleMouse() {
    return undefined;
  }

  dispose() {}
}

export class Container extends Component {
  children = [];

  addChild(component) {
    this.children.push(component);
  }

  removeChild(component) {
    this.children = this.children.filter((one) => one !== component);
  }

  clear() {
    this.children = [];
  }

  invalidate() {
    for (const child of this.children) child.invalidate?.();
  }

  render(width) {
    return this.children.flatMap((child) => child.render(width));
  }
}

// A line of full width with padding before it; a Text also has it after the line.
function padded(line, width, paddingX, background, after = 0) {
  const filled = " ".repeat(paddingX) + line + " ".repeat(after);
  const whole = filled + " ".repeat(Math.max(0, width - visibleWidth(filled)));
  return background ? background(whole) : whole;
}

export class Text extends Component {
  constructor(text = "", paddingX = 1, paddingY = 1, customBgFn = undefined) {
    super();
    this.text = text;
    this.paddingX = paddingX;
    this.paddingY = paddingY;
    this.customBgFn = customBgFn;
  }

  setText(text) {
    this.text = text;
  }

  setCustomBgFn(customBgFn) {
    this.customBgFn = customBgFn;
  }

  render(width) {
    if (!this.text || this.text.trim() === "") return [];
    const paddingX = Math.max(0, Math.min(this.paddingX, Math.floor((width - 1) / 2)));
    const room = Math.max(1, width - 2 * paddingX);
    const lines = wrapTextWithAnsi(this.text.replace(/\t/g, "   "), room);
    const blank = Array(this.paddingY).fill("");
    return [...blank, ...lines, ...blank].map((line) =>
      padded(line, width, paddingX, this.customBgFn, paddingX),
    );
  }
}

export class TruncatedText extends Component {
  constructor(text = "", paddingX = 0, paddingY = 0) {
    super();
    Object.assign(this, { text, paddingX, paddingY });
  }

  setText(text) {
    this.text = text;
  }

  render(width) {
    const room = Math.max(1, width - 2 * this.paddingX);
    const line = truncateToWidth(this.text.split("\n")[0], room);
    const blank = Array(this.paddingY).fill("");
    const side = this.paddingX;
    return [...blank, line, ...blank].map((one) => padded(one, width, side, undefined, side));
  }
}

export class Spacer extends Component {
  constructor(lines = 1) {
    super();
    this.lines = lines;
  }

  setLines(lines) {
    this.lines = lines;
  }

  render() {
    return Array(this.lines).fill("");
  }
}

export class Box extends Container {
  constructor(paddingX = 1, paddingY = 1, bgFn = undefined) {
    super();
    Object.assign(this, { paddingX, paddingY, bgFn });
  }

  setBgFn(bgFn) {
    this.bgFn = bgFn;
  }

  render(width) {
    if (!this.children.length) return [];
    const lines = super.render(Math.max(1, width - 2 * this.paddingX));
    if (!lines.length) return [];
    const blank = Array(this.paddingY).fill("");
    return [...blank, ...lines, ...blank].map((line) =>
      padded(line, width, this.paddingX, this.bgFn),
    );
  }
}

// Renders the source text: there is no screen that could show more.
export class Markdown extends Text {
  constructor(text, paddingX = 1, paddingY = 1, theme = undefined, style = undefined) {
    super(text, paddingX, paddingY);
    Object.assign(this, { theme, style });
  }
}

export class Loader extends Text {
  constructor(_ui, _spinner, message = plain, text = "Loading...") {
    super(message(text), 1, 0);
  }

  start() {}

  stop() {}

  setMessage(message) {
    this.setText(message);
  }

  setIndicator() {}
}

export class CancellableLoader extends Loader {
  #controller = new AbortController();
  onAbort = undefined;

  get signal() {
    return this.#controller.signal;
  }

  get aborted() {
    return this.#controller.signal.aborted;
  }
}

export class Input extends Component {
  #value = "";
  onSubmit = undefined;
  onEscape = undefined;
  focused = false;

  getValue() {
    return this.#value;
  }

  setValue(value) {
    this.#value = value;
  }

  render(width) {
    return [truncateToWidth(`> ${this.#value}`, width)];
  }
}

export class Editor extends Component {
  #text = "";
  onSubmit = undefined;
  onChange = undefined;
  disableSubmit = false;
  focused = false;
  borderColor = plain;

  getText() {
    return this.#text;
  }

  getExpandedText() {
    return this.#text;
  }

  setText(text) {
    this.#text = text;
    this.onChange?.(text);
  }

  insertTextAtCursor(text) {
    this.setText(this.#text + text);
  }

  getLines() {
    return this.#text.split("\n");
  }

  getCursor() {
    const lines = this.getLines();
    return { line: lines.length - 1, col: lines.at(-1).length };
  }

  addToHistory() {}

  setAutocompleteProvider() {}

  setPaddingX() {}

  isShowingAutocomplete() {
    return false;
  }

  render(width) {
    return this.getLines().flatMap((line) => wrapTextWithAnsi(line, Math.max(1, width)));
  }
}

export class SelectList extends Component {
  #chosen = 0;
  onSelect = undefined;
  onCancel = undefined;
  onSelectionChange = undefined;

  constructor(items = [], maxVisible = 5, theme = undefined, layout = undefined) {
    super();
    Object.assign(this, { items, filteredItems: items, maxVisible, theme, layout });
  }

  setFilter(filter) {
    const start = filter.toLowerCase();
    this.filteredItems = this.items.filter((item) => item.value.toLowerCase().startsWith(start));
    this.#chosen = 0;
  }

  setSelectedIndex(index) {
    this.#chosen = Math.max(0, Math.min(index, this.filteredItems.length - 1));
  }

  getSelectedItem() {
    return this.filteredItems[this.#chosen] ?? null;
  }

  render(width) {
    const shown = this.filteredItems.slice(0, this.maxVisible);
    return shown.map((item, at) =>
      truncateToWidth(`${at === this.#chosen ? "→" : " "} ${item.label ?? item.value}`, width, ""),
    );
  }
}

export class SettingsList extends Component {
  constructor(items = [], maxVisible = 10, theme = undefined, onChange = plain, onCancel = plain) {
    super();
    Object.assign(this, { items, maxVisible, theme, onChange, onCancel });
  }

  updateValue(id, newValue) {
    const item = this.items.find((one) => one.id === id);
    if (item) item.currentValue = newValue;
  }

  selectItem() {}

  render(width) {
    return this.items.map((item) =>
      truncateToWidth(`${item.label}  ${item.currentValue}`, width, ""),
    );
  }
}

export class Image extends Component {
  constructor(data, mimeType, theme = undefined, options = {}) {
    super();
    Object.assign(this, { data, mimeType, theme, options });
  }

  render() {
    return [`[Image: ${this.mimeType}]`];
  }
}
