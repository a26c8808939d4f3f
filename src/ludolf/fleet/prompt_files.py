"""Files of an item that go with its prompt: texts before it, images next to it."""

from collections.abc import Sequence
from pathlib import Path

from ludolf.ai.messages import Image
from ludolf.base import CommandError, ConfigError
from ludolf.base.project_files import FileRefused, read_bytes

MOST_FILE_BYTES = 20 * 1024 * 1024


def with_files(
    prompt: str, names: Sequence[str], places: Sequence[Path]
) -> tuple[str, list[Image]]:
    """Return the prompt after the texts of the files, and the images among them.

    A relative path is searched for in the places, in order.

    Raises:
        CommandError: a file does not exist, or cannot be read.
    """
    from ludolf.tools.images import file_in_prompt

    text, images = "", list[Image]()
    for name in names:
        path = _found(name, places)
        try:
            data = read_bytes(path, within=None, limit=MOST_FILE_BYTES) or b""
        except (ConfigError, FileRefused) as error:
            raise CommandError(f"The file {path} cannot be read: {error}") from error
        text += file_in_prompt(path, data, images)
    return text + prompt, images


def _found(name: str, places: Sequence[Path]) -> Path:
    for place in places:
        path = place / Path(name).expanduser()
        if path.is_file():
            return path
    raise CommandError(f'The file "{name}" of the item does not exist in {places[0]}.')
