"""Skills, templates, context files and the system prompt, loaded when first used."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from ludolf.engine.feature import Features
from ludolf.engine.hub import Hub
from ludolf.engine.toolset import Toolset
from ludolf.engine.workspace import Workspace
from ludolf.protocol.events import ContextFilesUsed

if TYPE_CHECKING:
    from ludolf.config.resources.skills import Skill
    from ludolf.config.resources.sources import (
        LoadedItems,
        ResourceCommandItem,
        ResourceKind,
        Source,
    )
    from ludolf.config.resources.system_prompt import PromptSources
    from ludolf.config.resources.templates import Template
    from ludolf.extensions.payloads import PromptOptions


class Resources:
    """Files of the user and the project that shape prompts; `invalidate` makes them load again.

    `override` replaces the system prompt until the running prompt ends.
    """

    def __init__(
        self,
        workspace: Workspace,
        toolset: Toolset,
        hub: Hub,
        features: Features,
        sections: Mapping[str, str] | None = None,
    ) -> None:
        self._workspace = workspace
        self._toolset = toolset
        self._hub = hub
        self._features = features
        self._sections = sections or {}
        self.override: str | None = None
        self._more: dict[str, tuple[str, ...]] = {}
        self._reported: tuple[str, ...] = ()
        self.invalidate()

    def add(self, skills: tuple[str, ...], prompts: tuple[str, ...]) -> None:
        """Add paths that extensions name to those of the command line."""
        self._more = {"skills": skills, "prompts": prompts}
        self.invalidate()

    def invalidate(self) -> None:
        self._skills: tuple[Skill, ...] | None = None
        self._templates: tuple[Template, ...] | None = None
        self._system: str | None = None

    def invalidate_prompt(self) -> None:
        """Build the system prompt again, since the tools changed."""
        self._system = None

    def warm_up(self) -> None:
        """Load the modules that build the system prompt."""
        from ludolf.config.resources import context_files, skills, system_prompt  # noqa: F401

    async def load(self) -> None:
        """Load the skills that the next request needs, in a thread if there may be some."""
        if self._skills is None and self._system is None:
            from ludolf.config.resources.skills import load_skills

            sources = self._skill_sources()
            found = await asyncio.to_thread(load_skills, sources) if sources else load_skills(())
            self._use_skills(found)

    def skills(self) -> "tuple[Skill, ...]":
        if self._skills is None:
            from ludolf.config.resources.skills import load_skills

            return self._use_skills(load_skills(self._skill_sources()))
        return self._skills

    def _skill_sources(self) -> "tuple[Source, ...]":
        options = self._workspace.options
        return self._sources("skills", options.skills, off=options.no_skills)

    def _use_skills(self, found: "LoadedItems[Skill]") -> "tuple[Skill, ...]":
        self._warn(found.warnings)
        self._skills = found.items
        return found.items

    def templates(self) -> "tuple[Template, ...]":
        if self._templates is None:
            from ludolf.config.resources.templates import load_templates

            options = self._workspace.options
            found = load_templates(
                self._sources("prompts", options.prompt_templates, off=options.no_prompt_templates)
            )
            self._warn(found.warnings)
            self._templates = found.items
        return self._templates

    def commands(self) -> "tuple[ResourceCommandItem, ...]":
        """Return templates and skills as commands that a host can offer."""
        from ludolf.config.resources.sources import command_items

        listed = self.skills() if self._workspace.settings.enable_skill_commands else ()
        templates = command_items(self.templates(), "prompt")
        return (*templates, *command_items(listed, "skill"))

    def expand(self, text: str) -> str:
        """Replace a skill command or a template call by its content."""
        if not text.startswith("/"):
            return text
        from ludolf.config.resources.skills import expand_skill
        from ludolf.config.resources.templates import expand_template

        if text.startswith("/skill:"):
            return expand_skill(text, self.skills())
        return expand_template(text, self.templates())

    def system_prompt(self) -> str:
        if self._system is None:
            self._system = self._build_system_prompt()
        return self._system

    def prompt_options(self) -> "PromptOptions":
        """Return the parts of the system prompt, as extensions see them."""
        from ludolf.extensions.payloads import PromptOptions

        sources = self._prompt_sources()
        return PromptOptions(
            cwd=str(sources.cwd),
            custom_prompt=sources.custom,
            append_system_prompt=sources.addenda,
            selected_tools=tuple(tool.name for tool in sources.tools),
            tool_snippets={tool.name: tool.snippet for tool in sources.tools if tool.snippet},
            tool_guidelines={tool.name: tool.guidelines for tool in sources.tools},
            context_files=tuple(str(file.path) for file in sources.context_files),
            skills=tuple(skill.name for skill in sources.skills),
        )

    def render(self, options: "PromptOptions") -> str:
        """Render the system prompt from options that an extension changed."""
        from ludolf.config.resources import system_prompt as prompt

        sources = self._prompt_sources()
        changed = structs.replace(
            sources,
            custom=options.custom_prompt,
            addenda=options.append_system_prompt,
            tools=[tool for tool in sources.tools if tool.name in options.selected_tools],
            guidelines=options.prompt_guidelines,
            extra={**sources.extra, **options.sections},
        )
        return prompt.render(prompt.build_sections(changed))

    def _build_system_prompt(self) -> str:
        from ludolf.config.resources import system_prompt as prompt

        sources = self._prompt_sources()
        self._report_files(tuple(str(file.path) for file in sources.context_files))
        return prompt.render(prompt.build_sections(sources))

    def _report_files(self, files: tuple[str, ...]) -> None:
        """Report to the host which files instruct the model: anyone may have written them."""
        if files != self._reported:
            self._reported = files
            self._hub.post(ContextFilesUsed(paths=files))

    def _prompt_sources(self) -> "PromptSources":
        from ludolf.config.resources import system_prompt as prompt
        from ludolf.config.resources.context_files import load_context_files
        from ludolf.config.resources.sources import LoadedItems

        options, home = self._workspace.options, self._workspace.home
        trusted = self._workspace.files.trusted
        hidden = self._features.hides(home.cwd)
        files = LoadedItems() if options.no_context_files else load_context_files(home, hidden)
        tools = self._toolset.active()
        names, sections = tuple(tool.name for tool in tools), dict(self._sections)
        for feature in self._features.hooks["prompt_sections"]:
            sections |= feature.prompt_sections(names)
        read = prompt.PromptFiles(is_hidden=hidden, warnings=list(files.warnings))
        sources = prompt.PromptSources(
            cwd=self._toolset.cwd,
            tools=tools,
            custom=prompt.find_custom_prompt(
                home, trusted=trusted, given=options.system_prompt, files=read
            ),
            addenda=prompt.find_addenda(
                home, trusted=trusted, given=options.append_system_prompt, files=read
            ),
            context_files=files.items,
            skills=self.skills(),
            extra=sections,
            docs=prompt.docs_folder(self._workspace.environ),
        )
        self._warn(tuple(read.warnings))
        return sources

    def _sources(
        self, kind: "ResourceKind", paths: tuple[str, ...], *, off: bool
    ) -> "tuple[Source, ...]":
        from ludolf.config.resources.sources import find_sources, missing_paths

        home, files = self._workspace.home, self._workspace.files
        named = (*paths, *self._more.get(kind, ()))
        self._warn(missing_paths(home, named))
        return find_sources(
            kind,
            home,
            files,
            paths=named,
            discover=not off,
            is_hidden=self._features.hides(home.cwd),
        )

    def _warn(self, texts: tuple[str, ...]) -> None:
        for text in texts:
            self._workspace.warn(f"Warning: {text}")
