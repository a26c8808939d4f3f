"""Parse shell text that is one command of literal words, which rules can match."""

import string

# Without quotes these are literal in every shell. Any other character (tilde, glob, brace,
# comment, backslash, variable, second command) needs a shell to interpret the text.
_PLAIN = frozenset(string.ascii_letters + string.digits + "_@%+=:,./-")
_NOT_IN_DOUBLE = frozenset('$`\\!"')


def literal_words(text: str) -> tuple[str, ...] | None:
    """Return the words of a command; None if the text may be more than literal words."""
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in " \t":
            at += 1
            continue
        word, at = _word(text, at)
        if word is None:
            return None
        words.append(word)
    # An assignment before a command (LD_PRELOAD=...) changes its behaviour.
    return None if not words or "=" in words[0] else tuple(words)


def _word(text: str, at: int) -> tuple[str | None, int]:
    # zsh expands =name to the path of a program.
    if text[at] == "=":
        return None, at
    word = ""
    while at < len(text) and text[at] not in " \t":
        sign = text[at]
        if sign in "'\"":
            inner, at = _quoted(text, at)
            if inner is None:
                return None, at
            word += inner
        elif sign in _PLAIN:
            word += sign
            at += 1
        else:
            return None, at
    return word, at


def _quoted(text: str, at: int) -> tuple[str | None, int]:
    quote = text[at]
    end = text.find(quote, at + 1)
    if end < 0:
        return None, at
    inner = text[at + 1 : end]
    if not (inner.isprintable() or not inner):
        return None, at
    if quote == '"' and _NOT_IN_DOUBLE & set(inner):
        return None, at
    return inner, end + 1
