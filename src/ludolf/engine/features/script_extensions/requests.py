"""Requests of scripts that take time, and their notices without an answer."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import UNSET

from ludolf.agent.tool import ToolContext, ToolOutput
from ludolf.ai.access import Access
from ludolf.ai.models import Model
from ludolf.base import CommandError
from ludolf.engine.features.script_extensions import providers
from ludolf.engine.features.script_extensions.link import TakeUpdate
from ludolf.engine.features.script_extensions.questions import Args, ScriptAsker
from ludolf.session.tree import Session
from ludolf.tools.schema import check_arguments

# Calls a function that a script passed: its number, the script, a session that it may fill.
CallBack = Callable[[int, Path, Session | None], Awaitable[None]]


class ScriptRequest:
    """One request: who asks, its arguments, and the ways back."""

    def __init__(
        self, asker: ScriptAsker, args: Args, update: TakeUpdate, call_back: CallBack
    ) -> None:
        self.asker = asker
        self.args = args
        self.update = update
        self.call_back = call_back

    @property
    def commands(self) -> Any:
        return self.asker.script.commands

    def text(self, name: str) -> str | None:
        value = self.args.get(name)
        return None if value is None else str(value)

    def milliseconds(self) -> float | None:
        value = self.args.get("timeout")
        return value if isinstance(value, int | float) and value > 0 else None

    def then(self) -> Any:
        """Return the function that runs in the next session, if the script passed one."""
        number = self.args.get("then")
        if number is None:
            return None

        async def run(context: Any) -> None:
            await self.call_back(int(number), self.asker.script.path, None)

        return run

    def setup(self) -> Any:
        number = self.args.get("setup")
        if number is None:
            return None

        async def run(session: Session) -> None:
            await self.call_back(int(number), self.asker.script.path, session)

        return run


# ---------------------------------------------------------------- dialogs


async def _select(request: ScriptRequest) -> Any:
    options = [str(option) for option in request.args.get("options") or ()]
    title, timeout = request.text("title") or "", request.milliseconds()
    return await request.asker.script.ui.select(title, options, timeout=timeout)


async def _confirm(request: ScriptRequest) -> Any:
    title, message = request.text("title") or "", request.text("message") or ""
    return await request.asker.script.ui.confirm(title, message, timeout=request.milliseconds())


async def _input(request: ScriptRequest) -> Any:
    title, hint = request.text("title") or "", request.text("placeholder")
    return await request.asker.script.ui.input(title, hint, timeout=request.milliseconds())


async def _editor(request: ScriptRequest) -> Any:
    title, prefill = request.text("title") or "", request.text("prefill")
    return await request.asker.script.ui.editor(title, prefill, timeout=request.milliseconds())


# ---------------------------------------------------------------- logins


async def _login_ask(request: ScriptRequest) -> str:
    asker = request.asker.script.accounts.logins.get(request.args.get("login"))
    return await asker.ask(request.text("message") or "", request.text("placeholder"))


async def _login_choose(request: ScriptRequest) -> str | None:
    asker = request.asker.script.accounts.logins.get(request.args.get("login"))
    labels = [str(label) for label in request.args.get("labels") or ()]
    return await asker.choose(request.text("message") or "", labels)


# ---------------------------------------------------------------- the session


async def _new_session(request: ScriptRequest) -> Any:
    return await request.commands.new_session(
        request.text("parentSession"), setup=request.setup(), with_session=request.then()
    )


async def _fork(request: ScriptRequest) -> Any:
    position: Any = request.args.get("position") or "before"
    return await request.commands.fork(
        request.text("entryId") or "", position=position, with_session=request.then()
    )


async def _switch_session(request: ScriptRequest) -> Any:
    path = request.text("path") or ""
    return await request.commands.switch_session(path, with_session=request.then())


async def _navigate_tree(request: ScriptRequest) -> Any:
    return await request.commands.navigate_tree(
        request.text("targetId") or "",
        summarize=request.args.get("summarize") is True,
        custom_instructions=request.text("customInstructions"),
        replace_instructions=request.args.get("replaceInstructions") is True,
        label=request.text("label"),
    )


async def _reload(request: ScriptRequest) -> None:
    await request.commands.reload()


async def _wait_for_idle(request: ScriptRequest) -> None:
    await request.asker.host.wait_for_idle()


async def _compact(request: ScriptRequest) -> Any:
    return await request.asker.host.compact(request.text("instructions"))


async def _exec(request: ScriptRequest) -> dict[str, Any]:
    result = await request.asker.script.api.exec(
        request.text("command") or "",
        [str(word) for word in request.args.get("args") or ()],
        cwd=request.text("cwd"),
        timeout=request.milliseconds(),
    )
    return {
        "stdout": result.stdout,
        "stderr": result.stderr,
        "code": result.code,
        "killed": result.killed,
    }


async def _send_message(request: ScriptRequest) -> None:
    send_message(request.asker, request.args)
    await request.asker.host.wait_for_idle()


async def _send_user_message(request: ScriptRequest) -> None:
    send_user_message(request.asker, request.args)
    await request.asker.host.wait_for_idle()


async def _run_tool(request: ScriptRequest) -> Any:
    """Run one of Ludolf's own tools in a folder, as the model runs them."""
    engine = request.asker.engine
    tool = request.asker.builtin_tools().get(request.text("name") or "")
    if tool is None:
        raise CommandError(f"Tool {request.text('name')} not found")
    prepared = await tool.prepare(request.args.get("args") or {})
    arguments = check_arguments(tool.name, tool.parameters, prepared)

    async def report(partial: ToolOutput) -> None:
        request.update(partial)

    cwd = Path(engine.workspace.cwd, request.text("cwd") or "")
    ctx = ToolContext(
        call_id="script",
        cwd=cwd,
        report=report,
        environment=engine.toolset.environment,
        walls=engine.features.walls(cwd),
        home=engine.workspace.home.user,
        agent_folder=engine.workspace.home.agent,
    )
    return await tool.execute(arguments, ctx)


# ---------------------------------------------------------------- models


async def _model_access(request: ScriptRequest) -> dict[str, Any]:
    args = request.args
    model = request.asker.catalog.find(str(args.get("provider")), str(args.get("id")))
    access = await _access(request, model) if model is not None else None
    if model is None or access is None:
        raise CommandError(f"No API key for {args.get('provider')}/{args.get('id')}")
    return {"apiKey": access.key, "headers": dict(access.headers), "baseUrl": model.base_url}


async def _provider_key(request: ScriptRequest) -> str | None:
    models = request.asker.catalog.of_provider(request.text("provider") or "")
    access = await _access(request, models[0]) if models else None
    return access.key if access is not None else None


async def _access(request: ScriptRequest, model: Model) -> Access | None:
    catalog = request.asker.catalog
    if catalog.ends_soon(model):
        await request.asker.engine.requests.renew(model.provider)
    return catalog.access(model)


async def _refresh_models(request: ScriptRequest) -> dict[str, str]:
    args, named = request.args, request.args.get("providers")
    providers = tuple(map(str, named)) if isinstance(named, list) else None
    network = args.get("allowNetwork")
    return await request.asker.host.providers.refresh(
        providers,
        network=network if isinstance(network, bool) else None,
        force=args.get("force") is True,
    )


async def _store_models(request: ScriptRequest) -> None:
    entry = request.args.get("entry")
    store = request.asker.script.accounts.refreshes.get(request.args.get("refresh"))
    await store(entry if isinstance(entry, Mapping) else None)


async def _complete(request: ScriptRequest) -> Any:
    return await providers.complete(request.asker.host, request.args)


async def _stream(request: ScriptRequest) -> Any:
    return await providers.stream(request.asker.host, request.args, request.update)


REQUESTS: dict[str, Callable[[ScriptRequest], Awaitable[Any]]] = {
    "ui.select": _select,
    "ui.confirm": _confirm,
    "ui.input": _input,
    "ui.editor": _editor,
    "login.ask": _login_ask,
    "login.choose": _login_choose,
    "refresh_models": _refresh_models,
    "store_models": _store_models,
    "new_session": _new_session,
    "fork": _fork,
    "switch_session": _switch_session,
    "navigate_tree": _navigate_tree,
    "reload": _reload,
    "wait_for_idle": _wait_for_idle,
    "compact": _compact,
    "exec": _exec,
    "run_tool": _run_tool,
    "send_message": _send_message,
    "send_user_message": _send_user_message,
    "model_access": _model_access,
    "provider_key": _provider_key,
    "complete": _complete,
    "stream": _stream,
}


# ---------------------------------------------------------------- notices


def send_message(asker: ScriptAsker, args: Args) -> None:
    """Add a custom message to the conversation."""
    message, options = args.get("message") or {}, args.get("options") or {}
    asker.script.api.send_message(
        str(message.get("customType")),
        message.get("content", ""),
        display=message.get("display", True) is not False,
        details=message.get("details", UNSET),
        trigger_turn=options.get("triggerTurn"),
        deliver_as=options.get("deliverAs"),
    )


def send_user_message(asker: ScriptAsker, args: Args) -> None:
    """Send a message as the user."""
    options = args.get("options") or {}
    asker.script.api.send_user_message(
        args.get("content", ""),
        deliver_as=options.get("deliverAs"),
        expand_prompt_templates=options.get("expandPromptTemplates") is True,
    )


def starts_run(asker: ScriptAsker, method: str, args: Args) -> bool:
    """Return whether a message begins a run, which waits for the end of the script's task."""
    if not asker.host.is_idle:
        return False
    options: Mapping[str, Any] = args.get("options") or {}
    if method == "send_user_message":
        return True
    return bool(options.get("triggerTurn")) and options.get("deliverAs") != "nextTurn"


def _set_widget(asker: ScriptAsker, args: Args) -> None:
    lines = args.get("lines")
    shown = None if lines is None else [str(line) for line in lines]
    asker.script.ui.set_widget(str(args.get("key")), shown, placement=args.get("placement"))


def _set_status(asker: ScriptAsker, args: Args) -> None:
    text = args.get("text")
    asker.script.ui.set_status(str(args.get("key")), None if text is None else str(text))


def _login_open(asker: ScriptAsker, args: Args) -> None:
    code, instructions = args.get("code"), args.get("instructions")
    shown = str(instructions or "Log in with a browser.")
    if code is not None:
        shown = f"Enter the code {code} there."
    asker.script.accounts.logins.get(args.get("login")).show(str(args.get("url")), shown)


def _login_progress(asker: ScriptAsker, args: Args) -> None:
    asker.script.accounts.logins.get(args.get("login")).progress(str(args.get("message")))


NOTICES: dict[str, Callable[[ScriptAsker, Args], None]] = {
    "send_message": send_message,
    "send_user_message": send_user_message,
    "login.open": _login_open,
    "login.progress": _login_progress,
    "abort": lambda asker, _: asker.host.abort(),
    "shutdown": lambda asker, _: asker.host.shutdown(),
    "ui.notify": lambda asker, args: asker.script.ui.notify(
        str(args.get("message")), args.get("level")
    ),
    "ui.set_status": _set_status,
    "ui.set_widget": _set_widget,
    "ui.set_title": lambda asker, args: asker.script.ui.set_title(str(args.get("title"))),
    "ui.set_editor_text": lambda asker, args: asker.script.ui.set_editor_text(
        str(args.get("text"))
    ),
}
