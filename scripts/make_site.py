"""Copy the documentation into a folder from which MkDocs builds the site.

Usage: python scripts/make_site.py FOLDER

The folder mirrors the repository, so links between pages stay as they are. Three things differ:
a link to a folder or to a source file leads to a page with its content, the words after the
language of a code block become its title, and nested lists are indented by four spaces. The folder
`api` gets one page for each public Python package. Its text comes from a copy of the package in
`FOLDER-source`, in which examples of docstrings are code blocks.
"""

import ast
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATTERNS = ("*.md", "docs/*.md", "docs/decisions/*.md", "examples/*.md")
STATIC = ("docs/images", "docs/schema")
ASSETS = ROOT / "scripts/site"
# The names that most programs use; the page of a package has its other public names after them.
MAIN = {
    "sdk": (
        *("create_session", "AgentSession", "Run", "Answer", "SessionOptions"),
        *("sync.create_session", "sync.BlockingSession"),
    ),
    "client": ("Client", "ClientOptions", "Answer", "ClientError"),
    "ext": ("Api", "Context", "CommandContext", "Ui"),
}
GUIDES = {"sdk": "sdk", "client": "client", "ext": "extensions"}
_FENCE = re.compile(r"^( *)(`{3,})(\w*)(?: +(?:file=)?(\S+))?$")
_NESTED = re.compile(r"^ {2,3}(?=\S)")
_LINK = re.compile(r"(?<=\]\()([^()\s#]+)(?=(?:#[^()\s]*)?\))")
_CODE = re.compile(r"(`+)(?:(?!\1).)+\1(?!`)")
# Lines of an interactive session and their output, up to an empty line or the end of the docstring.
_EXAMPLE = re.compile(r'^( *)>>> .*\n(?:(?! *""")\1?.*\S.*\n)*', re.MULTILINE)
_LANGUAGES = {".mjs": "js", ".sh": "sh", ".md": "markdown", ".yml": "yaml"}


def make_site(target: Path) -> None:
    """Write the source of the site, in place of an older one."""
    shutil.rmtree(target, ignore_errors=True)
    for page in pages():
        _write(target / page, render(page, (ROOT / page).read_text("utf-8"), target))
    for folder in STATIC:
        shutil.copytree(ROOT / folder, target / folder, dirs_exist_ok=True)
    shutil.copytree(ASSETS, target, dirs_exist_ok=True)
    shutil.copy(ROOT / "examples/web/icon.svg", target / "docs/images/icon.svg")
    _write(target / "docs/decisions/index.md", folder_page(ROOT / "docs/decisions"))
    for package in MAIN:
        _write(target / f"api/{package}.md", api_page(package))
    _copy_source(target.with_name(f"{target.name}-source"))


def pages() -> list[str]:
    """Return the pages of the repository, relative to it."""
    found = (path for pattern in PATTERNS for path in ROOT.glob(pattern))
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def render(page: str, text: str, target: Path) -> str:
    """Return a page as MkDocs reads it; write the pages of the sources that it links to."""
    return "\n".join(_lines(page, text, target)) + "\n"


def _lines(page: str, text: str, target: Path) -> Iterator[str]:
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            fence = "" if line.strip() == fence else fence
            yield line
        elif mark:
            fence = mark[2]
            title = f' title="{mark[4]}"' if mark[4] else ""
            yield f"{mark[1]}{mark[2]}{mark[3] or 'text'}{title}"
        else:
            yield _link_pages(page, _NESTED.sub("    ", line), target)


def _link_pages(page: str, line: str, target: Path) -> str:
    """Lead links to folders and sources to the pages that show them."""

    def lead(match: re.Match[str]) -> str:
        place = ROOT / os.path.normpath((ROOT / page).parent / match[1])
        if (
            ":" in match[1]
            or not place.exists()
            or place.suffix in (".md", ".png", ".svg", ".json")
        ):
            return match[1]
        name = place.relative_to(ROOT).as_posix() + ("/index.md" if place.is_dir() else ".md")
        shown = folder_page(place) if place.is_dir() else source_page(place)
        _write(target / name, shown)
        return match[1].rstrip("/") + ("/index.md" if place.is_dir() else ".md")

    pieces, end = [], 0
    for code in _CODE.finditer(line):
        # Code can be the text of a link, but a link in code is not one.
        pieces += [_LINK.sub(lead, line[end : code.start()]), code[0]]
        end = code.end()
    return "".join((*pieces, _LINK.sub(lead, line[end:])))


def folder_page(folder: Path) -> str:
    """Return a page with the files of a folder: links to pages and data, else their content."""
    name = folder.relative_to(ROOT).as_posix()
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    files.sort(key=lambda path: path.relative_to(folder).parts[0].startswith("."))
    if ROOT / "docs" in folder.parents:
        lines = [f"- [{_title(path)}]({path.name})" for path in files]
        return (
            f"# {folder.name.capitalize()}\n\nThe files in `{name}`:\n\n" + "\n".join(lines) + "\n"
        )
    shown = (
        f"## {path.relative_to(folder).as_posix()}\n\n{_fenced(path)}"
        for path in files
        if "__pycache__" not in path.parts
    )
    return f"# {name}\n\n" + "\n".join(shown)


def source_page(path: Path) -> str:
    """Return a page that shows one source file."""
    return f"# {path.relative_to(ROOT).as_posix()}\n\n{_fenced(path)}"


def api_page(package: str) -> str:
    """Return a page that makes mkdocstrings show the public names of a package."""
    main = MAIN[package]
    # A module stands in `main` with its own names.
    others = [name for name in public_names(package) if name not in main and name != "sync"]
    guide = f"Examples are in [the guide](../docs/{GUIDES[package]}.md)."
    parts = [f"# ludolf.{package}", guide, "## Main names", *_shown(package, main)]
    return "\n\n".join([*parts, "## Other names", *_shown(package, others)]) + "\n"


def public_names(package: str) -> list[str]:
    """Return the names in `__all__` of a package, without importing it."""
    tree = ast.parse((ROOT / f"src/ludolf/{package}/__init__.py").read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _copy_source(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for path in (ROOT / "src").rglob("*.py"):
        text = _EXAMPLE.sub(fence_example, path.read_text("utf-8"))
        _write(target / path.relative_to(ROOT / "src"), text)


def fence_example(match: re.Match[str]) -> str:
    """Put an example of a docstring between marks of a code block."""
    indent = match[1]
    return f"{indent}````pycon\n{match[0]}{indent}````\n"


def _shown(package: str, names: Iterable[str]) -> list[str]:
    return [f"::: ludolf.{package}.{name}" for name in names]


def _fenced(path: Path) -> str:
    language = _LANGUAGES.get(path.suffix, path.suffix.removeprefix(".") or "text")
    return f"````{language}\n{path.read_text('utf-8').rstrip()}\n````\n"


def _title(path: Path) -> str:
    first = path.read_text("utf-8").partition("\n")[0]
    return first.removeprefix("# ") if path.suffix == ".md" else path.name


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    make_site(Path(sys.argv[1]))
