"""Skills, templates, context files and the system prompt, loaded when first needed."""

import asyncio
from typing import TYPE_CHECKING

from msgspec import structs

from ludolf.engine.parts import Parts
from ludolf.protocol.events import ContextFilesUsed

if TYPE_CHECKING:
    from ludolf.config.resources.skills import Skill, Skills
    from ludolf.config.resources.sources import CommandItem, Kind, Source
    from ludolf.config.resources.system_prompt import PromptSources
    from ludolf.config.resources.templates import Template
    from ludolf.extensions.payloads import PromptOptions

# Of the system prompt, beside its own sections.
SECTION = "host_documents"


class Resources:
    """What the user and the project lay beside the program; `forget` makes it load anew."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._more: dict[str, tuple[str, ...]] = {}
        self._named: tuple[str, ...] = ()
        self.forget()

    def add(self, skills: tuple[str, ...], prompts: tuple[str, ...]) -> None:
        """Places that extensions name, beside those of the command line."""
        self._more = {"skills": skills, "prompts": prompts}
        self.forget()

    def forget(self) -> None:
        self._skills: tuple[Skill, ...] | None = None
        self._templates: tuple[Template, ...] | None = None
        self._system: str | None = None

    def forget_prompt(self) -> None:
        """Tools changed: build the system prompt anew."""
        self._system = None

    async def load(self) -> None:
        """Load what the next request needs and a folder of any size may hold, in a thread."""
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
        options = self._parts.options
        return self._sources("skills", options.skills, off=options.no_skills)

    def _use_skills(self, found: "Skills") -> "tuple[Skill, ...]":
        self._warn(found.warnings)
        self._skills = found.items
        return found.items

    def templates(self) -> "tuple[Template, ...]":
        if self._templates is None:
            from ludolf.config.resources.templates import load_templates

            options = self._parts.options
            found = load_templates(
                self._sources("prompts", options.prompt_templates, off=options.no_prompt_templates)
            )
            self._warn(found.warnings)
            self._templates = found.items
        return self._templates

    def commands(self) -> "tuple[CommandItem, ...]":
        """Templates and skills as commands that a host can offer."""
        from ludolf.config.resources.skills import skill_commands
        from ludolf.config.resources.templates import template_commands

        listed = self.skills() if self._parts.settings.enable_skill_commands else ()
        return (*template_commands(self.templates()), *skill_commands(listed))

    def expand(self, text: str) -> str:
        """Skill commands and templates, replaced by what they stand for."""
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
        """What the system prompt is made of, in the words of extensions."""
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
        """The system prompt as an extension wants it."""
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
        self._name(tuple(str(file.path) for file in sources.context_files))
        return prompt.render(prompt.build_sections(sources))

    def _name(self, files: tuple[str, ...]) -> None:
        """Anybody may have laid them there, and the model obeys them: the host shall know."""
        if files != self._named:
            self._named = files
            self._parts.hub.post(ContextFilesUsed(paths=files))

    def _prompt_sources(self) -> "PromptSources":
        from ludolf.config.resources import system_prompt as prompt
        from ludolf.config.resources.context_files import ContextFiles, load_context_files

        parts, options = self._parts, self._parts.options
        trusted = parts.settings_files.trusted
        hidden = parts.is_hidden
        files = ContextFiles()
        if not options.no_context_files:
            files = load_context_files(parts.home, hidden)
        tools = parts.toolbox.active()
        read = prompt.PromptFiles(is_hidden=hidden, warnings=list(files.warnings))
        sources = prompt.PromptSources(
            cwd=parts.home.cwd,
            tools=tools,
            custom=prompt.find_custom_prompt(
                parts.home, trusted=trusted, given=options.system_prompt, files=read
            ),
            addenda=prompt.find_addenda(
                parts.home, trusted=trusted, given=options.append_system_prompt, files=read
            ),
            context_files=files.items,
            skills=self.skills(),
            extra={**(parts.sections or {}), **self._lent([tool.name for tool in tools])},
        )
        self._warn(tuple(read.warnings))
        return sources

    def _lent(self, tools: list[str]) -> dict[str, str]:
        """The documents that a host lends, once it lends some."""
        documents = self._parts.documents
        text = documents.prompt_section(tools) if documents is not None else None
        return {SECTION: text} if text is not None else {}

    def _sources(self, kind: "Kind", paths: tuple[str, ...], *, off: bool) -> "tuple[Source, ...]":
        from ludolf.config.resources.sources import find_sources, missing_paths

        parts = self._parts
        given = (*paths, *self._more.get(kind, ()))
        self._warn(missing_paths(parts.home, given))
        return find_sources(
            kind,
            parts.home,
            parts.settings_files,
            paths=given,
            discover=not off,
            is_hidden=parts.is_hidden,
        )

    def _warn(self, texts: tuple[str, ...]) -> None:
        for text in texts:
            self._parts.warn(f"Warning: {text}")
