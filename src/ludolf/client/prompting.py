"""Typed commands: prompts, queues, shell commands, compaction and retries."""

from collections.abc import Sequence
from typing import Literal

from ludolf.agent.io import (
    QueueMode,
)
from ludolf.ai.messages import Image
from ludolf.client.base import CommandSender
from ludolf.protocol.commands import Disposition
from ludolf.protocol.events import CompactionResult
from ludolf.protocol.results import BashResult
from ludolf.protocol.wire.answers import Queued
from ludolf.protocol.wire.commands import Attachment, InterruptMode


class PromptCommands(CommandSender):
    """Commands about prompts. Each method sends the command of its name."""

    async def prompt(
        self,
        message: str,
        *,
        images: Sequence[Image] | None = None,
        attachments: Sequence[Attachment] | None = None,
        streaming_behavior: Literal["steer", "followUp"] | None = None,
    ) -> Disposition | None:
        """Send a prompt; returns when it is accepted, not when the run ends.

        Returns None if the program does not report a disposition. `streaming_behavior` chooses
        the queue if the agent runs.

        Raises:
            Refused: the agent runs, or no model or no key is available.
        """
        disposition: Disposition | None = await self._call(
            "prompt",
            message=message,
            images=images,
            attachments=attachments,
            streaming_behavior=streaming_behavior,
        )
        return disposition

    async def abort_and_prompt(
        self,
        message: str,
        *,
        images: Sequence[Image] | None = None,
        attachments: Sequence[Attachment] | None = None,
        streaming_behavior: Literal["steer", "followUp"] | None = None,
    ) -> Disposition | None:
        """Abort the run and send a prompt in one step; raises as `prompt` does."""
        disposition: Disposition | None = await self._call(
            "abort_and_prompt",
            message=message,
            images=images,
            attachments=attachments,
            streaming_behavior=streaming_behavior,
        )
        return disposition

    async def steer(
        self, message: str, *, images: Sequence[Image] | None = None
    ) -> Disposition | None:
        """Queue a steering message; the running agent gets it before its next request."""
        disposition: Disposition | None = await self._call("steer", message=message, images=images)
        return disposition

    async def follow_up(
        self, message: str, *, images: Sequence[Image] | None = None
    ) -> Disposition | None:
        """Say something that the agent turns to when it is done."""
        disposition: Disposition | None = await self._call(
            "follow_up", message=message, images=images
        )
        return disposition

    async def abort(self) -> None:
        """Stop the run with all its tools; returns when it has come to rest."""
        await self._call("abort")

    async def clear_queue(self) -> Queued:
        """Remove the queued messages; returns their texts."""
        queued: Queued = await self._call("clear_queue")
        return queued

    async def set_steering_mode(self, mode: QueueMode) -> None:
        """How many steering messages are delivered at once."""
        await self._call("set_steering_mode", mode=mode)

    async def set_follow_up_mode(self, mode: QueueMode) -> None:
        """How many follow-ups are delivered at once."""
        await self._call("set_follow_up_mode", mode=mode)

    async def set_interrupt_mode(self, mode: InterruptMode) -> None:
        """Whether calls that have not begun are skipped for a steering message."""
        await self._call("set_interrupt_mode", mode=mode)

    async def bash(self, command: str, *, exclude_from_context: bool = False) -> BashResult:
        """Run a shell command of the user; returns when it has ended."""
        result: BashResult = await self._call(
            "bash", command=command, exclude_from_context=exclude_from_context
        )
        return result

    async def abort_bash(self) -> None:
        """Stop the shell commands of `bash`."""
        await self._call("abort_bash")

    async def compact(self, custom_instructions: str | None = None) -> CompactionResult:
        """Replace the older part of the conversation by a summary.

        Raises:
            Refused: there is nothing to compact, or it failed.
        """
        result: CompactionResult = await self._call(
            "compact", custom_instructions=custom_instructions
        )
        return result

    async def set_auto_compaction(self, enabled: bool) -> None:
        """Choose whether to compact automatically when the context is nearly full."""
        await self._call("set_auto_compaction", enabled=enabled)

    async def set_auto_retry(self, enabled: bool) -> None:
        """Choose whether requests with a temporary error are retried."""
        await self._call("set_auto_retry", enabled=enabled)

    async def abort_retry(self) -> None:
        """End a wait for another attempt, and with it the prompt."""
        await self._call("abort_retry")
