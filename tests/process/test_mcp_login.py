"""`ludolf mcp login` and `ludolf mcp logout`, with a user who visits the address."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.mcp_identity import ProtectedServer
from tests.process.harness import WAIT_SECONDS, Finished, Lab

PROGRAM = (sys.executable, "-m", "ludolf", "mcp")


@pytest.fixture
def server(lab: Lab) -> Iterator[ProtectedServer]:
    with ProtectedServer() as served:
        _configure(lab, served.url)
        yield served


def _configure(lab: Lab, url: str) -> None:
    servers: dict[str, Any] = {
        "lab": {"url": url},
        "local": {"command": "true"},
        "keyed": {"url": "https://h/", "headers": {"Authorization": "Bearer abcdefgh"}},
    }
    (lab.agent / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def _run(lab: Lab, *words: str) -> Finished:
    return lab.run(*words, program=PROGRAM)


def _log_in(lab: Lab, server: ProtectedServer) -> Finished:
    """Log in without a terminal, as a script does that visits the printed address."""
    with subprocess.Popen(
        [*PROGRAM, "login", "lab"],
        cwd=lab.work,
        env=lab.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        line = program.stdout.readline()
        if line:
            server.browse(line.decode().strip())
        out, errors = program.communicate(timeout=2 * WAIT_SECONDS)
    return Finished(program.returncode, line + out, errors.decode())


def test_a_login_prints_one_address_and_stores_the_tokens_until_the_logout(
    lab: Lab, server: ProtectedServer
) -> None:
    checked = _run(lab, "check", "lab")
    assert "requires a login. Log in with: ludolf mcp login lab" in checked.stderr
    done = _log_in(lab, server)
    path = lab.agent / "mcp-auth.json"
    assert done.code == 0, done.stderr
    assert done.stdout.startswith(f"{server.origin}/authorize?".encode())
    assert done.stdout.count(b"\n") == 1
    assert done.stderr.endswith(f"Logged in to lab. Stored in {path}\n")
    assert "access-1-secret" in path.read_text()
    assert "secret" not in done.stderr
    gone = _run(lab, "logout", "--local", "lab")
    assert (gone.code, gone.stderr) == (0, "Logged out of lab.\n")
    assert json.loads(path.read_text()) == {}
    again = _run(lab, "logout", "lab")
    assert (again.code, again.stderr) == (1, "No login of lab is stored.\n")


def test_at_a_terminal_the_address_of_the_last_page_can_be_pasted(
    lab: Lab, server: ProtectedServer
) -> None:
    terminal, end = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, "login", "lab"],
        cwd=lab.work,
        env=lab.env,
        stdin=end,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as program:
        assert program.stdout is not None
        url = program.stdout.readline().decode().strip()
        os.write(terminal, f"{server.redirect(url)}\n".encode())
        _, errors = program.communicate(timeout=2 * WAIT_SECONDS)
    os.close(end)
    os.close(terminal)
    assert program.returncode == 0, errors
    assert b"Logged in to lab." in errors


def test_a_failed_login_says_why(lab: Lab, server: ProtectedServer) -> None:
    server.metadata["issuer"] = "https://evil.example"
    done = _log_in(lab, server)
    assert (done.code, done.stdout) == (1, b"")
    assert 'Error: The login to the MCP server "lab" failed: the metadata of' in done.stderr
    _configure(lab, "http://127.0.0.1:9/mcp")
    unreachable = _log_in(lab, server)
    assert unreachable.code == 1
    assert 'The login to the MCP server "lab" failed: Connection error' in unreachable.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("keyd", "Did you mean"),
        ("local", "only HTTP servers have logins"),
        ("keyed", "has an Authorization header"),
    ],
)
def test_servers_without_a_login_are_refused(
    name: str, words: str, lab: Lab, server: ProtectedServer
) -> None:
    done = _run(lab, "login", name)
    assert (done.code, done.stdout) == (1, b"")
    assert words in done.stderr
    assert not server.requests
