"""A server of the Model Context Protocol for tests: well-behaved, or faulty in one way.

Over pipes it is a program, over HTTP a thread of the test:

    python mcp_server.py MODE [NUMBER]           a `StdioServer` from `program(MODE, NUMBER)`
    with HttpMcp(MODE) as server: server.url     records `server.requests` and `server.messages`

Modes of both: `plain`; `modern` (2026-07-28 only); `both` (both eras); `mute` (no answers);
`unknown_version`; `paged` (NUMBER tools, 50 a page); `endless` (pages without end); `repeating`
(the same cursor each time); `heavy` (ten tools of 1 MiB each); `undeclared` (no capabilities);
`mangled` (answers of the wrong shape; its modern version is not known).

Over pipes only: `exit` (exit code 3 and a reason on stderr); `leave` (ends after the handshake);
`noise` (other lines, broken bytes and wrong ids on stdout); `long_line` (a line of NUMBER bytes);
`stderr` (NUMBER bytes on stderr); `stubborn` (ignores the end of stdin and SIGTERM, and has a child
in a session of its own, whose pid is on stderr); `asks` (sends 100 requests of its own at once).

Over HTTP only: `events` (every answer is an event stream); `forgetful` (forgets the session at the
first call); `cut` (ends the stream of a call early); `redirect` and `moved` (to another origin, to
another path); `locked` (401 unless the token is `good`); `scoped` (403 unless it is); `busy` (503
twice for each request); `failing` (503 always); `old` (405 to POST, as HTTP+SSE); `page` (a web
page); `packed` (a compressed answer); `pushing` (a message on the GET stream); `strict` (modern;
checks the headers of calls, also of mirrored arguments).

Tools: `echo{text}`; `seen` (all messages that the server received, as JSON); `environment`;
`refuse` (an error); `ask{method}` (a request to the client, in the way of the era; its answer);
`recall` (a request to the client that is cancelled at once); `twist` (an invalid request to it);
`wait` (reports progress, never answers); `steps{count, pause}` (reports progress, then answers);
`die`; `grow` (adds a tool and reports it); `big{size}`; `deep` (a result nested 600 levels); `odd`
(a result that is not an object); `routed{region}` (`x-mcp-header`); `fail` (an error result);
`peek` (says that it only reads); `amend` (changes the description of `peek` and reports it).
Also the prompt `greet{who}`, the resource `test://doc` and the template `test://{name}`.

A program with the variable `STARTS` appends its process id to that file when it starts, and the
negative id when its stdin has ended. With the variable `GATE` it waits until that file exists.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
PAGE = 50
Frame = dict[str, Any]
Send = Callable[[Frame], None]


def tool(name: str, **properties: Any) -> Frame:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema}


TEXT = {"type": "string"}
NAMES = (
    *("recall", "twist", "seen", "environment", "refuse", "wait", "die", "grow", "deep", "odd"),
    *("fail", "amend"),
)
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 9}
TOOLS = (
    tool("echo", text=TEXT),
    tool("ask", method=TEXT),
    tool("steps", count={"type": "integer"}, pause={"type": "number"}),
    tool("big", size={"type": "integer"}),
    tool("routed", region={"type": "string", "x-mcp-header": "Region"}),
    {**tool("peek"), "annotations": {"readOnlyHint": True}},
    *map(tool, NAMES),
)


class Refused(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class McpServer:
    """The protocol without a transport: takes frames, and sends some."""

    def __init__(self, mode: str, number: int = 0) -> None:
        self.mode, self.number = mode, number
        self.tools: list[Frame] = list(TOOLS)
        if mode == "paged":
            self.tools = [tool(f"tool_{index}") for index in range(number)]
        elif mode == "heavy":
            self.tools = [{**tool(f"tool_{index}"), "pad": "x" * (1 << 20)} for index in range(10)]
        self.messages: list[Frame] = []
        self.answers: dict[object, Frame] = {}
        self.client: Frame = {}
        self.changed = threading.Condition()
        self.asked = 0

    def take(self, message: Frame, send: Send) -> None:
        """Handle one message of the client."""
        with self.changed:
            self.messages.append(message)
            if "method" not in message:
                self.answers[message.get("id")] = message
            self.changed.notify_all()
        if "method" in message and "id" in message and self.mode != "mute":
            answer = self.answer(message, send)
            if answer is not None:
                send({"jsonrpc": "2.0", "id": message["id"], **answer})
        elif message.get("method") == "notifications/initialized":
            self.greet(send)

    def greet(self, send: Send) -> None:
        if self.mode == "leave":
            os._exit(0)
        if self.mode == "asks":
            for number in range(100):
                send({"jsonrpc": "2.0", "id": f"q{number}", "method": "roots/list"})

    def answer(self, message: Frame, send: Send) -> Frame | None:
        params = message.get("params") or {}
        try:
            modern = self.is_modern(message["method"], params)
            result = self.result(message["method"], params, message["id"], send)
        except Refused as error:
            return {"error": {"code": error.code, "message": str(error)}}
        except KeyError as error:
            return {"error": {"code": -32602, "message": f"missing {error}"}}
        if modern and isinstance(result, dict):
            result = {"resultType": "complete", **result}
        return None if result is None else {"result": result}

    def is_modern(self, method: str, params: Frame) -> bool:
        meta = params.get("_meta") or {}
        modern = META + "protocolVersion" in meta
        only_modern = self.mode in ("modern", "strict")
        if only_modern and not modern:
            raise Refused(-32022, "Unsupported protocol version")
        if modern and not only_modern and self.mode not in ("both", "mangled"):
            raise Refused(-32601, "Method not found")
        if modern:
            assert meta[META + "protocolVersion"] == MODERN
            assert meta[META + "clientInfo"]["name"] == "ludolf"
            self.client = meta[META + "clientCapabilities"]
        elif method == "initialize":
            self.client = params["capabilities"]
        return modern

    def result(self, method: str, params: Frame, number: object, send: Send) -> Any:
        match method:
            case "initialize":
                version = "1999-01-01" if self.mode == "unknown_version" else "2025-11-25"
                return {"protocolVersion": version, **self.about()}
            case "server/discover":
                versions = ["2099-01-01"] if self.mode == "mangled" else [MODERN]
                return {"supportedVersions": versions, **self.about()}
            case "tools/list" | "prompts/list" if self.mode == "mangled":
                return {"tools": 5, "prompts": [None, 3, {"name": "good"}]}
            case "tools/list":
                return self.page(params.get("cursor"))
            case "tools/call":
                run = getattr(self, "do_" + params["name"], None)
                if run is None:
                    raise Refused(-32602, f"Unknown tool: {params['name']}")
                return run(params.get("arguments") or {}, params, number, send)
            case "prompts/list":
                arguments = [{"name": "who", "required": True}]
                return {"prompts": [{"name": "greet", "arguments": arguments}]}
            case "prompts/get":
                text = f"Greet {params['arguments']['who']}."
                return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
            case "resources/list":
                return {"resources": [{"uri": "test://doc", "name": "doc"}]}
            case "resources/templates/list" if self.mode != "mangled":
                return {"resourceTemplates": [{"uriTemplate": "test://{name}", "name": "any"}]}
            case "resources/read":
                return {"contents": [{"uri": params["uri"], "text": "contents"}]}
            case "subscriptions/listen":
                changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
                send(changed)
                return None
        raise Refused(-32601, "Method not found")

    def about(self) -> Frame:
        info = {"name": "test-server", "version": "7"}
        declared: Frame = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}}
        capabilities = {} if self.mode == "undeclared" else declared
        return {"serverInfo": info, "capabilities": capabilities, "instructions": "Use echo."}

    def page(self, cursor: str | None) -> Frame:
        first = int(cursor or 0)
        if self.mode == "endless":
            return {"tools": [tool(f"tool_{first}")], "nextCursor": str(first + 1)}
        if self.mode == "repeating":
            return {"tools": [tool("same")], "nextCursor": "1"}
        shown = self.tools[first : first + PAGE]
        more = first + PAGE < len(self.tools)
        return {"tools": shown, "nextCursor": str(first + PAGE)} if more else {"tools": shown}

    # ------------------------------------------------------------ tools

    def do_echo(self, args: Frame, *_: object) -> Frame:
        return said(args["text"])

    def do_routed(self, args: Frame, *_: object) -> Frame:
        return said(args["region"])

    def do_seen(self, *_: object) -> Frame:
        with self.changed:
            return said(json.dumps(self.messages))

    def do_environment(self, *_: object) -> Frame:
        return said(json.dumps({"names": sorted(os.environ), "cwd": os.getcwd()}))

    def do_fail(self, *_: object) -> Frame:
        return {**said("it did not work"), "isError": True}

    def do_peek(self, *_: object) -> Frame:
        return said("peeked")

    def do_amend(self, args: Frame, params: Frame, number: object, send: Send) -> Frame:
        (peek,) = (each for each in self.tools if each["name"] == "peek")
        self.tools[self.tools.index(peek)] = {**peek, "description": "Another text."}
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return said("amended")

    def do_refuse(self, *_: object) -> Frame:
        raise Refused(-32000, "refused by the server")

    def do_wait(self, args: Frame, params: Frame, number: object, send: Send) -> None:
        def is_cancelled() -> bool:
            return any(
                message.get("method") == "notifications/cancelled"
                and message["params"]["requestId"] == number
                for message in self.messages
            )

        token = params.get("_meta", {}).get("progressToken")
        if token is not None:
            progress = {"progressToken": token, "progress": 1, "message": "waiting"}
            send({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
        with self.changed:
            self.changed.wait_for(is_cancelled, 20)

    def do_steps(self, args: Frame, params: Frame, number: object, send: Send) -> Frame:
        token = params["_meta"]["progressToken"]
        for step in range(1, args["count"] + 1):
            threading.Event().wait(args["pause"])
            progress = {"progressToken": token, "progress": step, "message": f"step {step}"}
            send({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
        return said("done")

    def do_die(self, *_: object) -> None:
        complain("the end is near")
        os._exit(9)

    def do_grow(self, args: Frame, params: Frame, number: object, send: Send) -> Frame:
        self.tools.append(tool("grown"))
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return said("grown")

    def do_big(self, args: Frame, *_: object) -> Frame:
        return said("x" * args["size"])

    def do_deep(self, *_: object) -> Any:
        value: Any = 1
        for _level in range(600):
            value = [value]
        return {"content": [], "structuredContent": {"deep": value}}

    def do_odd(self, *_: object) -> Any:
        return [1, 2]

    def do_recall(self, args: Frame, params: Frame, number: object, send: Send) -> Frame:
        send({"jsonrpc": "2.0", "id": "recalled", "method": "elicitation/create", "params": {}})
        cancelled = {"requestId": "recalled"}
        send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
        return said("recalled")

    def do_twist(self, args: Frame, params: Frame, number: object, send: Send) -> Frame:
        if META + "protocolVersion" in params["_meta"]:
            return {"resultType": "input_required", "inputRequests": {"q": {"params": 5}}}
        send({"jsonrpc": "2.0", "id": "twisted", "method": "roots/list", "params": []})
        with self.changed:
            self.changed.wait_for(lambda: "twisted" in self.answers, 20)
        return said(json.dumps(self.answers["twisted"]["error"]))

    def do_ask(self, args: Frame, params: Frame, number: object, send: Send) -> Frame:
        """Ask the client, and return its answer as JSON."""
        form = {"message": "Which colour?", "requestedSchema": {"type": "object"}}
        asked = SAMPLE if args["method"].startswith("sampling/") else form
        if (
            self.mode in ("modern", "strict", "both")
            and META + "protocolVersion" in params["_meta"]
        ):
            given = params.get("inputResponses")
            if given is None or args["method"] == "for ever":
                request = {"method": args["method"], "params": asked}
                return {
                    "resultType": "input_required",
                    "inputRequests": {"q": request},
                    "requestState": "opaque",
                }
            return said(json.dumps([given["q"], params["requestState"], number]))
        with self.changed:
            self.asked += 1
            mine = f"ask-{self.asked}"
        send({"jsonrpc": "2.0", "id": mine, "method": args["method"], "params": asked})
        with self.changed:
            self.changed.wait_for(lambda: mine in self.answers, 20)
        answer = self.answers[mine]
        return said(json.dumps(answer.get("result", answer.get("error"))))


def complain(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def said(text: str) -> Frame:
    return {"content": [{"type": "text", "text": text}]}


# ---------------------------------------------------------------- pipes


def program(mode: str, number: int = 0, env: dict[str, str] | None = None) -> Any:
    """Return the `StdioServer` of a mode."""
    from ludolf.mcp.wire import StdioServer

    here = Path(__file__)
    words = (sys.executable, "-I", str(here), mode, str(number))
    return StdioServer(argv=words, env=dict(os.environ) if env is None else env, cwd=here.parent)


def serve_pipes(mode: str, number: int) -> None:
    server, lock = McpServer(mode, number), threading.Lock()

    def send(frame: Frame) -> None:
        data = json.dumps(frame).encode() + b"\n"
        if mode == "noise":
            other = (
                b'starting\n\n\xff\xfe\n{"half": \n[]\nnull\n{"jsonrpc":"2.0","id":77,"result":1}\n'
            )
            data = other + data + b'{"id": 1.5, "result": 1}\n7\n'
        with lock:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    prepare_pipes(mode, number)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("method") == "tools/call":
            threading.Thread(target=server.take, args=(message, send), daemon=True).start()
        else:
            server.take(message, send)
    note(-os.getpid())
    if mode == "stubborn":
        threading.Event().wait()


def note(number: int) -> None:
    if "STARTS" in os.environ:
        with open(os.environ["STARTS"], "a") as file:
            file.write(f"{number}\n")


def prepare_pipes(mode: str, number: int) -> None:
    """Misbehave before the first message is read."""
    note(os.getpid())
    while not Path(os.environ.get("GATE", "/")).exists():
        threading.Event().wait(0.005)
    if mode == "exit":
        complain("reason: the database is missing")
        sys.exit(3)
    elif mode == "stubborn":
        import signal
        import subprocess

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        null = subprocess.DEVNULL
        child = subprocess.Popen(
            ["sleep", "60"], start_new_session=True, stdin=null, stdout=null, stderr=null
        )
        complain(str(child.pid))
    elif mode == "long_line":
        sys.stdout.buffer.write(b"x" * number + b"\n")
        sys.stdout.buffer.flush()
    elif mode == "stderr":
        sys.stderr.write("e" * number + " end\n")
        sys.stderr.flush()


# ---------------------------------------------------------------- HTTP


class HttpMcp:
    """Serves while the `with` block lasts. Header names in `requests` are in lower case."""

    def __init__(self, mode: str, number: int = 0) -> None:
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        self.mode = mode
        self.server = McpServer(mode, number)
        # (HTTP method, path, headers, message)
        self.requests: list[tuple[str, str, dict[str, str], Frame]] = []
        self.sessions: set[str] = set()
        self.started = 0
        self.failures: dict[object, int] = {}
        # Set when a client has closed the stream of a call before its answer.
        self.left = threading.Event()
        # Set when a client has asked for the GET stream; streams stay open until `over` is set.
        self.streamed = threading.Event()
        self.over = threading.Event()
        exchange = self.exchange

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                """Log nothing."""

            def handle_any(self) -> None:
                exchange(self)

            do_GET = do_POST = do_DELETE = handle_any

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """A client that leaves early is normal here."""

        self._web = Quiet(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._web.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._web.server_address[1]}/mcp"

    @property
    def messages(self) -> list[Frame]:
        return self.server.messages

    def methods(self) -> list[str]:
        """The methods of all POST requests, in order."""
        return [
            message.get("method", "") for kind, _, _, message in self.requests if kind == "POST"
        ]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._web.shutdown()
        self._web.server_close()
        self._thread.join(5)

    # ------------------------------------------------------------ one request

    def exchange(self, web: Any) -> None:
        body = web.rfile.read(int(web.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in web.headers.items()}
        message = json.loads(body) if body else {}
        self.requests.append((web.command, web.path, headers, message))
        if web.command == "GET":
            self.streamed.set()
            self.stream(web)
        elif web.command == "DELETE":
            self.sessions.discard(headers.get("mcp-session-id", ""))
            self.reply(web, 200)
        elif not self.refused(web, headers, message):
            self.accept(web, headers, message)

    def refused(self, web: Any, headers: dict[str, str], message: Frame) -> bool:
        """Answer a request that the mode does not accept."""
        port, key = self._web.server_address[1], json.dumps(message)
        is_known = headers.get("authorization") == "Bearer good"
        match self.mode:
            case "locked" if not is_known:
                self.reply(web, 401, WWW_Authenticate='Bearer resource_metadata="https://m"')
            case "scoped" if not is_known:
                self.reply(web, 403, WWW_Authenticate='Bearer error="insufficient_scope"')
            case "redirect":
                self.reply(web, 307, Location=f"http://localhost:{port}/elsewhere")
            case "moved" if web.path == "/mcp":
                self.reply(web, 307, Location="/new")
            case "old":
                self.reply(web, 405)
            case "page":
                self.reply(web, 200, b"<html>hello", "text/html")
            case "packed":
                self.reply(web, 200, b"\x1f\x8b", Content_Encoding="gzip")
            case "failing":
                self.reply(web, 503, b"out of order", "text/plain")
            case "busy" if self.failures.get(key, 0) < 2:
                self.failures[key] = self.failures.get(key, 0) + 1
                self.reply(web, 503)
            case _:
                return False
        return True

    def accept(self, web: Any, headers: dict[str, str], message: Frame) -> None:
        method, more = message.get("method"), {}
        is_modern = self.mode in ("modern", "strict")
        if method == "initialize" and not is_modern:
            self.started += 1
            self.sessions.add(f"s{self.started}")
            more = {"Mcp_Session_Id": f"s{self.started}"}
        elif not is_modern and method != "server/discover" and not self.is_session(headers, method):
            error = {"code": -32001, "message": "Session not found"}
            body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
            return self.reply(web, 404, body)
        wrong = self.wrong_headers(headers, message) if self.mode == "strict" else ""
        if wrong:
            error = {"code": -32020, "message": wrong}
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
            return self.reply(web, 400, body)
        if "method" not in message or "id" not in message:
            self.server.take(message, lambda frame: None)
            return self.reply(web, 202)
        if self.mode == "events" or method in ("tools/call", "subscriptions/listen"):
            return self.stream_answer(web, message, more)
        frames: list[Frame] = []
        self.server.take(message, frames.append)
        status = 400 if frames and frames[0].get("error", {}).get("code") == -32022 else 200
        return self.reply(web, status, json.dumps(frames[0]).encode() if frames else b"", **more)

    def is_session(self, headers: dict[str, str], method: object) -> bool:
        session = headers.get("mcp-session-id", "")
        if self.mode == "forgetful" and method == "tools/call" and self.started == 1:
            self.sessions.discard(session)
        return session in self.sessions

    def wrong_headers(self, headers: dict[str, str], message: Frame) -> str:
        params = message.get("params") or {}
        expected = {"mcp-protocol-version": MODERN, "mcp-method": message["method"]}
        if message["method"] == "tools/call":
            expected["mcp-name"] = params["name"]
            if params["name"] == "routed":
                expected["mcp-param-region"] = params["arguments"]["region"]
        return next((name for name, value in expected.items() if headers.get(name) != value), "")

    def stream_answer(self, web: Any, message: Frame, more: dict[str, str]) -> None:
        web.send_response(200)
        for name, value in {"content-type": "text/event-stream", **more}.items():
            web.send_header(name.replace("_", "-"), value)
        web.send_header("transfer-encoding", "chunked")
        web.send_header("connection", "close")
        web.end_headers()
        lock = threading.Lock()

        def write(data: bytes) -> None:
            with lock:
                web.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                web.wfile.flush()

        write(b"id: 1\ndata: \n\n: comment\n\n")
        if self.mode == "cut" and message["method"] == "tools/call":
            web.close_connection = True
            return
        watch = threading.Thread(target=self.watch, args=(web,), daemon=True)
        watch.start()
        self.server.take(
            message, lambda frame: write(b"data: " + json.dumps(frame).encode() + b"\n\n")
        )
        write(b"")
        web.close_connection = True

    def watch(self, web: Any) -> None:
        """Note that the client has closed the connection."""
        import socket

        try:
            if not web.connection.recv(1, socket.MSG_PEEK):
                self.left.set()
        except OSError:
            self.left.set()

    def stream(self, web: Any) -> None:
        if self.mode != "pushing":
            return self.reply(web, 405)
        web.send_response(200)
        web.send_header("content-type", "text/event-stream")
        web.send_header("connection", "close")
        web.end_headers()
        message = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        web.wfile.write(b"event: message\r\ndata: " + json.dumps(message).encode() + b"\r\n\r\n")
        web.wfile.flush()
        self.over.wait(20)
        return None

    def reply(
        self,
        web: Any,
        status: int,
        body: bytes = b"",
        kind: str = "application/json",
        **headers: str,
    ) -> None:
        web.send_response(status)
        fixed = {"content-type": kind, "content-length": str(len(body))}
        for name, value in {**fixed, **headers}.items():
            web.send_header(name.replace("_", "-"), value)
        web.end_headers()
        web.wfile.write(body)


if __name__ == "__main__":
    serve_pipes(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
