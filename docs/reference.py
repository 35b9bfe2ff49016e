"""Writes the reference as text, for those who read it in the repository: `docs/reference/*.md`.

    python -m docs.reference

Its pages are those of `docs/api`, whose entries the website renders. A test holds that they are
current. Needs the extra "docs".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import griffe

DOCS = Path(__file__).parent
FOLDER = DOCS / "reference"
_WIDTH = 88
# An entry of a page, with its options.
_ENTRY = re.compile(r"^::: (?P<name>\S+)\n(?P<options>(?:    .*\n)*)", re.MULTILINE)
_MEMBERS = re.compile(r"members: \[(.*)\]")
_HEADING = re.compile(r"heading: (\S+)")
_LINK = re.compile(r"^In the repository, .*\n\n", re.MULTILINE)  # to the text itself
_DOCTEST = re.compile(r"^>>> (?:.*\n?)+?(?=^\s*$|\Z)", re.MULTILINE)


def write_pages() -> dict[str, str]:
    """The text of each page by its name."""
    package = griffe.load("mtwrappers", search_paths=[DOCS.parent], resolve_aliases=True)
    pages = {}
    for path in sorted(DOCS.glob("api/*.md")):
        page = _LINK.sub("", path.read_text())
        text = _ENTRY.sub(lambda entry: "\n".join(write_entry(package, entry)), page)
        pages[path.name] = re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"
    return pages


def write_entry(package: griffe.Module, entry: re.Match[str]) -> Iterator[str]:
    """The lines of an entry: a name, or the members of a module."""
    name, options = entry["name"], entry["options"]
    obj = package[name.partition(".")[2]]
    heading = _HEADING.search(options)
    if not obj.is_module:
        yield from write_object(heading[1] if heading else name, obj)
        return
    yield from write_docstring(obj)
    members = _MEMBERS.search(options)
    for member in members[1].split(", ") if members else obj.members:
        if not member.startswith("_") and not obj[member].is_alias and obj[member].docstring:
            yield from write_object(f"{name}.{member}", obj[member])


def write_object(name: str, obj: griffe.Object | griffe.Alias, level: int = 2) -> Iterator[str]:
    """The lines of a function, a class with its methods, or a constant."""
    yield from (f"{'#' * level} {name}", "")
    parameters = obj.parameters if obj.is_function or obj.is_class else None
    if parameters is not None and "property" not in obj.labels:
        returns = f" -> {obj.returns}" if obj.is_function and obj.returns else ""
        yield from ("```python", write_signature(obj.name, parameters, returns), "```", "")
    yield from write_docstring(obj)
    if obj.is_class:
        # The members of an alias are aliases, too: those of the class itself are asked for.
        class_ = obj.final_target if isinstance(obj, griffe.Alias) else obj
        for member in class_.members.values():
            if member.docstring and not member.name.startswith("_") and not member.is_alias:
                class_name = name.rpartition(".")[2]
                yield from write_object(f"{class_name}.{member.name}", member, level + 1)


def write_signature(name: str, parameters: griffe.Parameters, returns: str) -> str:
    """A signature, with an argument per line if it is long."""
    arguments: list[str] = []
    for parameter in parameters:
        if parameter.name in ("self", "cls"):
            continue
        kind = parameter.kind
        is_keyword = kind is griffe.ParameterKind.keyword_only
        if is_keyword and not any(argument.startswith("*") for argument in arguments):
            arguments.append("*")
        stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
        text = stars.get(kind, "") + parameter.name
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and kind not in stars:
            text += f" = {parameter.default}"
        arguments.append(text)
    line = f"{name}({', '.join(arguments)}){returns}"
    if len(line) <= _WIDTH:
        return line
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name}(\n{lines}){returns}"


def write_docstring(obj: griffe.Object | griffe.Alias) -> Iterator[str]:
    """The lines of a docstring in Google's style, as Markdown."""
    if obj.docstring is None:
        return
    options = {"warnings": False, "returns_multiple_items": False, "returns_named_value": False}
    for section in obj.docstring.parse("google", **options):
        if section.kind is griffe.DocstringSectionKind.text:
            yield from (_DOCTEST.sub(_fence, section.value), "")
        elif section.kind is griffe.DocstringSectionKind.examples:
            for kind, text in section.value:
                is_code = kind is griffe.DocstringSectionKind.examples
                yield from (f"```python\n{text}\n```" if is_code else text, "")
        elif section.kind is griffe.DocstringSectionKind.admonition:
            yield from (f"**{section.title}** {section.value.description}", "")
        else:
            yield from (f"**{section.kind.value.capitalize()}**", "")
            for item in section.value:
                name = getattr(item, "name", None) or getattr(item, "annotation", None)
                description = item.description.replace("\n", "\n  ")
                yield f"- `{name}`: {description}" if name else f"- {description}"
            yield ""


def _fence(code: re.Match[str]) -> str:
    return f"```python\n{code[0].rstrip()}\n```\n"


def main() -> None:
    """Writes all pages."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        path.unlink()
    for name, text in write_pages().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
