"""Shell text that is one command of literal words: the only kind that a rule can judge."""

import string

# Without quotes these mean themselves in every shell. A tilde, a glob, a brace, a comment, a
# backslash, a variable, a second command: all else makes a text that only a shell can read.
_PLAIN = frozenset(string.ascii_letters + string.digits + "_@%+=:,./-")
_NOT_IN_DOUBLE = frozenset('$`\\!"')


def literal_words(text: str) -> tuple[str, ...] | None:
    """The words of the command, or None if the text is, or may be, more than literal words."""
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
    # An assignment before a command (LD_PRELOAD=...) changes what the command does.
    return None if not words or "=" in words[0] else tuple(words)


def _word(text: str, at: int) -> tuple[str | None, int]:
    # zsh takes =name for the path of a program.
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
