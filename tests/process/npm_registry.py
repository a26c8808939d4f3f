"""A registry of npm on a loopback socket, with packages that a test describes."""

import base64
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote


class NpmRegistry:
    """Serves the versions added so far; `env` makes npm use it."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._versions: dict[str, dict[str, Any]] = {}
        self._tarballs: dict[str, bytes] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, body = registry._answer(unquote(self.path))
                self.send_response(code)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def env(self) -> dict[str, Any]:
        return {
            "npm_config_registry": self.url,
            "npm_config_cache": str(self._cache),
            "npm_config_update_notifier": "false",
        }

    def add(self, name: str, version: str, files: Mapping[str, str], **manifest: Any) -> None:
        """Publish a version."""
        about = {"name": name, "version": version, **manifest}
        data = _tarball({"package.json": json.dumps(about), **files})
        path = f"/{name}/-/{version}.tgz"
        digest = base64.b64encode(hashlib.sha512(data).digest()).decode()
        dist = {"tarball": self.url + path, "integrity": f"sha512-{digest}"}
        scripted = {"hasInstallScript": True} if "scripts" in manifest else {}
        self._tarballs[path] = data
        self._versions.setdefault(name, {})[version] = {**about, **scripted, "dist": dist}

    def _answer(self, path: str) -> tuple[int, bytes]:
        if path in self._tarballs:
            return 200, self._tarballs[path]
        versions = self._versions.get(path[1:])
        if versions is None:
            return 404, b"{}"
        latest = {"latest": list(versions)[-1]}
        body = {"name": path[1:], "versions": versions, "dist-tags": latest}
        return 200, json.dumps(body).encode()


def _tarball(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()
