"""The token of the server and the names in requests: only what was allowed comes in."""

import os
from pathlib import Path

import pytest

from ludolf.base import ConfigError
from ludolf.serve.guard import AccessGuard, TokenFile, is_loopback_host

SECRET = "s" * 43


def _guard(*, hosts: tuple[str, ...] = (), listening: str = "127.0.0.1") -> AccessGuard:
    return AccessGuard(SECRET, hosts, ("https://app.example", "http://dev.example:3000"), listening)


# ---------------------------------------------------------------- the token


def test_a_token_is_made_once_and_only_its_user_can_read_it(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "agent")
    token = file.load()
    assert len(token) == 43
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.load() == token
    assert os.listdir(file.path.parent) == ["serve-token"]


def test_a_new_token_replaces_the_old_one_even_if_that_is_readable(tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    old = file.load()
    file.path.chmod(0o644)
    assert file.load(new=True) != old
    assert file.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_token_may_end_with_a_newline(end: str, tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    file.path.write_text(SECRET + end)
    file.path.chmod(0o600)
    assert file.load() == SECRET


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604])
def test_a_token_that_others_can_read_is_refused(mode: int, tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    file.load()
    file.path.chmod(mode)
    with pytest.raises(ConfigError, match=rf"mode {mode:04o}.*--new-token.*chmod 600"):
        file.load()


@pytest.mark.parametrize("text", ["", "\n", "short", "x" * 2000, "spaces in a token of 32 letters"])
def test_a_file_without_a_usable_token_is_refused(text: str, tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    file.path.write_text(text)
    file.path.chmod(0o600)
    with pytest.raises(ConfigError, match="--new-token"):
        file.load()


def test_what_is_not_a_private_file_is_refused(tmp_path: Path) -> None:
    target = TokenFile(tmp_path / "other")
    target.load()
    link = TokenFile(tmp_path)
    link.path.symlink_to(target.path)
    with pytest.raises(ConfigError, match="Cannot use the token file"):
        link.load()
    link.path.unlink()
    os.mkfifo(link.path, 0o600)
    with pytest.raises(ConfigError, match="not a file"):
        link.load()


def test_only_the_token_is_accepted() -> None:
    guard = _guard()
    assert guard.accepts(SECRET)
    for wrong in (None, "", SECRET[:-1], SECRET + "s", SECRET.upper(), "é" * 43, "\ud800"):
        assert not guard.accepts(wrong)
    assert not AccessGuard("", (), (), "127.0.0.1").accepts("")


def test_a_token_is_accepted_from_a_bearer_header_only() -> None:
    guard = _guard()
    assert guard.accepts_header(f"Bearer {SECRET}")
    assert guard.accepts_header(f"bearer  {SECRET} ")
    for wrong in ("", SECRET, f"Basic {SECRET}", f"Bearer{SECRET}", f"Bearer {SECRET}x", "Bearer"):
        assert not guard.accepts_header(wrong)


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8080",
        "LocalHost:1",
        "127.0.0.1",
        "127.0.0.1:65535",
        "127.8.9.10:80",
        "[::1]",
        "[::1]:8080",
        "[0:0:0:0:0:0:0:1]:80",
    ],
)
def test_loopback_names_and_addresses_are_ours(host: str) -> None:
    assert _guard().check_names([("Host", host)]) is None


@pytest.mark.parametrize(
    "host",
    [
        "",
        " ",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "127.0.0.1.",
        "localhost.",
        "localhost..",
        ".localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0.0.0.0",
        "192.168.1.5",
        "128.0.0.1",
        "[::]",
        "[::2]",
        "[::ffff:127.0.0.1]",
        "::1",
        "[::1",
        "::1]",
        "[::1]x",
        "[::1]]",
        "[127.0.0.1]",
        "[localhost]",
        "[::1%25lo]",
        "localhost:",
        "localhost:80:80",
        "localhost:-1",
        "localhost:65536",
        "localhost:８０",
        "localhost:8080@evil.example",
        "user@localhost",
        "localhost@evil.example",
        "evil.example#localhost",
        "localhost/evil",
        "localhost\\evil",
        "localhost evil.example",
        "localhost,evil.example",
        "localhost\0",
        "localhost\t",
        "ｌｏｃａｌｈｏｓｔ",
        "loca\u212ahost",
        "%6cocalhost",
        "localhost" * 10_000,
        "a." * 100_000,
        "\udcff",
    ],
)
def test_other_hosts_are_refused(host: str) -> None:
    assert "Host" in (_guard().check_names([("Host", host)]) or "")


def test_one_host_is_needed_and_two_are_refused() -> None:
    guard = _guard()
    assert guard.check_names([]) is not None
    assert guard.check_names([("Host", "localhost"), ("host", "localhost")]) is not None
    assert guard.check_names([("Host", "localhost"), ("HOST", "evil.example")]) is not None


def test_the_listening_address_and_allowed_hosts_are_ours() -> None:
    guard = _guard(hosts=("Box.Example", "fe80::7", "10.0.0.7"), listening="192.168.1.5")
    for host in ("box.example", "BOX.example:443", "[FE80:0::7]:1", "10.0.0.7", "192.168.1.5:8"):
        assert guard.check_names([("Host", host)]) is None
    for host in ("www.box.example", "box.example.evil", "192.168.1.50", "10.0.0.8"):
        assert guard.check_names([("Host", host)]) is not None


@pytest.mark.parametrize("listening", ["0.0.0.0", "::", "[::]"])
def test_a_server_on_all_addresses_has_every_address_and_no_name(listening: str) -> None:
    guard = _guard(listening=listening)
    assert guard.check_names([("Host", "192.168.1.5:8080")]) is None
    assert guard.check_names([("Host", "[fe80::7]:8080")]) is None
    for host in ("evil.example", "192.168.1.5.nip.io", "2130706433"):
        assert guard.check_names([("Host", host)]) is not None


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("LOCALHOST:8080", "http://localhost:8080"),
        ("127.0.0.1:8080", "https://127.0.0.1:8080"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("localhost", "http://localhost"),
        ("localhost", "https://localhost"),
        ("localhost:443", "https://localhost"),
        ("localhost:8080", "https://app.example"),
        ("localhost:8080", "https://APP.example:443"),
        ("localhost:8080", "http://dev.example:3000"),
    ],
)
def test_pages_of_the_server_and_of_allowed_origins_may_use_it(host: str, origin: str) -> None:
    assert _guard().check_names([("Host", host), ("Origin", origin)]) is None


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "*",
        "http://evil.example",
        "http://localhost",
        "http://localhost:3000",
        "http://127.0.0.1:8080",
        "http://localhost:8080.evil.example",
        "http://localhost:8080@evil.example",
        "http://user@localhost:8080",
        "http://localhost:8080/",
        "http://localhost:8080 http://evil.example",
        "ws://localhost:8080",
        "file://localhost:8080",
        "chrome-extension://localhost:8080",
        "localhost:8080",
        "//localhost:8080",
        "http://app.example",
        "https://app.example:8443",
        "https://app.example.evil.example",
        "https://dev.example:3000",
        "https://" + "a" * 100_000,
    ],
)
def test_pages_of_other_origins_are_refused(origin: str) -> None:
    headers = [("Host", "localhost:8080"), ("Origin", origin)]
    assert "origin" in (_guard().check_names(headers) or "")


def test_two_origins_are_refused() -> None:
    headers = [("Host", "localhost:8"), *[("Origin", "http://localhost:8")] * 2]
    assert _guard().check_names(headers) is not None


def test_requests_from_another_site_are_refused_unless_its_origin_is_allowed() -> None:
    guard, ours = _guard(), ("Host", "localhost:8080")
    for site in ("none", "same-origin", "same-site"):
        assert guard.check_names([ours, ("Sec-Fetch-Site", site)]) is None
    for crossing in ("cross-site", "Cross-Site", " cross-site"):
        site_header = ("sec-fetch-site", crossing)
        assert guard.check_names([ours, site_header]) is not None
        assert guard.check_names([ours, ("Origin", "http://localhost:8080"), site_header])
        assert guard.check_names([ours, ("Origin", "https://app.example"), site_header]) is None


def test_an_allowed_origin_is_repeated_as_it_was_sent_and_no_other() -> None:
    guard = _guard()
    assert guard.allowed_origin("https://app.example") == "https://app.example"
    for other in (None, "null", "http://localhost:8080", "https://evil.example"):
        assert guard.allowed_origin(other) is None


@pytest.mark.parametrize("host", ["", "a:1", "http://a", "*", "a/b", "a b"])
def test_hosts_that_are_none_are_refused_at_the_start(host: str) -> None:
    with pytest.raises(ConfigError, match="--host"):
        AccessGuard(SECRET, (host,), (), "127.0.0.1")


@pytest.mark.parametrize("origin", ["", "null", "*", "app.example", "https://a/b", "ftp://a"])
def test_origins_that_are_none_are_refused_at_the_start(origin: str) -> None:
    with pytest.raises(ConfigError, match="--origin"):
        AccessGuard(SECRET, (), (origin,), "127.0.0.1")


def test_loopback_hosts_are_known() -> None:
    assert all(map(is_loopback_host, ("localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]")))
    assert not any(map(is_loopback_host, ("0.0.0.0", "::", "", "10.0.0.1", "box.example")))
