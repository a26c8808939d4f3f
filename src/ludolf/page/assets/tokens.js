// Split code into tokens: one regular expression per language, one pass.

const WORD = String.raw`[\p{L}_][\p{L}\p{M}\p{N}_$]*`;
const languages = new Map();
for (const language of LANGUAGES.languages) {
  for (const name of language.names.split(" ")) languages.set(name, language);
}

// A pattern with its named parts filled in.
function whole(pattern) {
  return pattern?.replace(/<([A-Z_]+)>/g, (_, name) => whole(LANGUAGES.parts[name]));
}

// The rules of a language by one of its names, or undefined.
function languageOf(name) {
  const language = languages.get(name.replace(/^\./, ""));
  if (language && !language.pattern) {
    const { comment, key, string = "<QUOTED>", word = WORD } = language;
    const parts = Object.entries({ c: comment, a: key, s: string, n: "<NUMBER>", w: word });
    const known = parts.filter(([, part]) => part).map(([kind, part]) => [kind, whole(part)]);
    language.kinds = known.map(([kind]) => kind);
    language.pattern = new RegExp(known.map(([, part]) => `(${part})`).join("|"), "gmu");
    language.words = new Set(language.keywords.join(" ").split(" "));
  }
  return language;
}

// Lists of [kind, start, end], in their order.
function tokensOf(text, language) {
  const found = [];
  const { pattern, kinds } = language;
  pattern.lastIndex = 0;
  for (let match = pattern.exec(text); match; match = pattern.exec(text)) {
    let kind = kinds[match.indexOf(match[0], 1) - 1];
    const end = pattern.lastIndex;
    if (kind === "w") kind = kindOfWord(match[0], text[end], language);
    if (kind) found.push([kind, match.index, end]);
  }
  return found;
}

function kindOfWord(word, after, { words, types }) {
  if (words.has(word)) return "k";
  const first = word[0];
  const small = word.toLowerCase();
  if (!types && word !== small && word === word.toUpperCase() && words.has(small)) return "k";
  if (after === "(") return "f";
  return types && first !== first.toLowerCase() ? "t" : "";
}
