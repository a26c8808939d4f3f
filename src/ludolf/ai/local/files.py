"""GGUF files as models, selected by path or found in the folders of other programs."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ludolf.ai.local import FILE_API, FILE_SUFFIX, FILES
from ludolf.ai.local.gguf import GgufError, GgufHeader, read_gguf
from ludolf.ai.local.servers import COMPAT, local_model, thinking_compat
from ludolf.ai.models import Model
from ludolf.base import ConfigError, loads, user_dir
from ludolf.base.patterns import lazy_pattern
from ludolf.base.project_files import read_bytes

DEFAULT_CONTEXT = 16_384
UNKNOWN_CONTEXT = 4096
MAX_DEPTH = 6
MODEL_LAYER = "application/vnd.ollama.image.model"
# Parts of models, and models that are not chat models.
_SILENT = ("clip", "bert", "whisper", "t5encoder", "adapter", "mmproj", "imatrix")
_LATER_PART = lazy_pattern(r"-(?!00001)\d{5}-of-\d{5}$")
_FIRST_PART = lazy_pattern(r"-00001-of-\d{5}$")


def file_model(model_id: str, environ: Mapping[str, str]) -> Model:
    """Return the model of a path, or of a name among the files found.

    Raises:
        GgufError: the file is missing or is not a model.
    """
    if os.path.isabs(model_id):
        path = Path(model_id)
        return _model(model_id, path, read_gguf(path))
    for name, path in found_files(environ):
        if name.lower() == model_id.lower():
            return _model(name, path, read_gguf(path))
    looked = ", ".join(map(str, (*folders(environ), ollama_folder(environ))))
    raise GgufError(f'No GGUF file is called "{model_id}". Looked in: {looked}.')


def file_models(environ: Mapping[str, str]) -> tuple[Model, ...]:
    """Return all chat models among the files, each name once."""
    models: dict[str, Model] = {}
    for name, path in found_files(environ):
        if name in models:
            continue
        try:
            header = read_gguf(path)
        except GgufError:
            continue
        kind = f"{header.architecture} {header.values.get('general.type', '')}"
        if not any(word in kind for word in _SILENT):
            models[name] = _model(name, path, header)
    return tuple(models.values())


def _model(model_id: str, path: Path, header: GgufHeader) -> Model:
    thinking = thinking_compat(header.template or "")
    context = min(header.context_length or UNKNOWN_CONTEXT, DEFAULT_CONTEXT)
    model = local_model(FILES, "", model_id, context=context, thinks=bool(thinking))
    return model.replace(
        name=header.name or path.stem,
        api=FILE_API,
        base_url=path.absolute().as_uri(),
        compat={**COMPAT, **thinking},
    )


# ---------------------------------------------------------------- where files are


def found_files(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Return the names and paths of all GGUF files in the usual folders."""
    for folder in folders(environ):
        for path in sorted(_walk(folder, MAX_DEPTH)):
            stem = path.name[: -len(FILE_SUFFIX)]
            if not _LATER_PART.search(stem) and not stem.lower().startswith("mmproj"):
                yield _FIRST_PART.sub("", stem), path
    yield from _ollama_files(ollama_folder(environ))


def folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of the Hugging Face hub, LM Studio and llama.cpp."""
    home = user_dir(environ)
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    hub = Path(environ.get("HF_HOME") or cache / "huggingface") / "hub"
    return (
        Path(environ.get("HF_HUB_CACHE") or hub),
        home / ".lmstudio" / "models",
        home / ".cache" / "lm-studio" / "models",
        Path(environ.get("LLAMA_CACHE") or cache / "llama.cpp"),
        home / "Library" / "Caches" / "llama.cpp",
        cache / "ludolf",
    )


def ollama_folder(environ: Mapping[str, str]) -> Path:
    home = user_dir(environ)
    return Path(environ.get("OLLAMA_MODELS") or home / ".ollama" / "models")


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    """Yield GGUF files below a folder; follow links to files, but not to folders."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if depth:
                yield from _walk(Path(entry.path), depth - 1)
        elif entry.name.lower().endswith(FILE_SUFFIX) and entry.is_file():
            yield Path(entry.path)


def _ollama_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield Ollama's models: manifests map names to weight files, which are named by hash."""
    manifests = folder / "manifests"
    for path in sorted(manifests.glob("*/*/*/*")):
        owner, model, tag = path.relative_to(manifests).parts[1:]
        name = f"{model}:{tag}" if owner == "library" else f"{owner}/{model}:{tag}"
        blob = _weights(path)
        if blob is not None and (folder / "blobs" / blob).is_file():
            yield name, folder / "blobs" / blob


def _weights(manifest: Path) -> str | None:
    try:
        layers = loads(read_bytes(manifest, within=None) or b"")["layers"]
        for layer in layers:
            if layer["mediaType"] == MODEL_LAYER:
                return Path(str(layer["digest"]).replace(":", "-")).name
    except (ConfigError, ValueError, KeyError, TypeError):
        return None
    return None
