"""Words that mark a variable, header or field as secret; the only such list."""

from ludolf.base.patterns import lazy_pattern

# `dbPassword1`, `DB_PASSWORD_1` and `db-password.1` consist of the same words.
_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_WORDS = frozenset(
    (
        *("KEY", "PASS", "PWD", "PASSCODE", "PAT", "PIN", "OTP", "TOTP", "AUTH", "AUTHORIZATION"),
        *("BEARER", "JWT", "DSN", "CRED", "CREDS", "SALT", "SIG", "SIGNATURE", "SK", "WEBHOOK"),
        *("CONNSTR", "MNEMONIC", "PEM"),
    )
)
_WITHIN = lazy_pattern(
    "PASSW|PASSPHRASE|CREDENTIAL|COOKIE|APIKEY|SECRET(?!AR)|TOKEN(?!I[SZ])|CONNECTIONSTRING"
)
_END = lazy_pattern("(?:KEY|PASS|PWD|AUTH|JWT|WEBHOOK)$")
_INNOCENT = frozenset(
    (
        *("ASKPASS", "BYPASS", "COMPASS", "ENCOMPASS", "OVERPASS", "OLDPWD", "HOTKEY", "HOCKEY"),
        *("JOCKEY", "MONKEY", "DONKEY", "TURKEY", "WHISKEY", "LACKEY"),
    )
)
# A name with such an ending holds the location or the owner of a secret, not the secret.
_PLACES = frozenset(
    (
        *("FILE", "FILENAME", "PATH", "DIR", "DIRECTORY", "FOLDER", "SOCK", "SOCKET"),
        *("HOST", "HOSTNAME", "PORT", "ENDPOINT", "URL", "URI", "USER", "USERNAME", "NAME"),
    )
)
# For these names the address itself is the secret.
_SECRET_PLACES = frozenset(("WEBHOOK", "DSN"))


def is_secret_name(name: str) -> bool:
    """Return whether the value of this name is probably a secret."""
    words = _words(name)
    return _are_telling(words) and not _tell_place(words)


def is_place_name(name: str) -> bool:
    """Return whether the value of this name is probably the location or owner of a secret."""
    words = _words(name)
    return _are_telling(words) and _tell_place(words)


def _words(name: str) -> list[str]:
    return [word.upper() for word in _WORD.findall(name)]


def _tell_place(words: list[str]) -> bool:
    return words[-1] in _PLACES and not _SECRET_PLACES.intersection(words)


def _are_telling(words: list[str]) -> bool:
    if words == ["PWD"]:
        return False  # the working folder
    return any(map(_is_telling, words)) or "CONNECTIONSTRING" in "".join(words)


def _is_telling(word: str) -> bool:
    single = word.removesuffix("S") if len(word) > 3 else word
    if word in _INNOCENT or single in _INNOCENT:
        return False
    if word in _WORDS or single in _WORDS or _WITHIN.search(word):
        return True
    return _END.search(word) is not None or _END.search(single) is not None
