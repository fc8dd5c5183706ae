"""The Lua scripts: each carries what it uses of `common`, `saving` and `items.lua`, and no more.

A server builds all functions of a script anew in each call, so what isn't used costs time.
"""

import re
from functools import cache
from hashlib import sha1
from importlib import resources
from typing import NamedTuple

_FOLDER = resources.files("langgraph_sessionmem.backends") / "lua"
_FUNCTION = re.compile(r"^local function (\w+)", re.MULTILINE)
_COMMENT = re.compile(r"\s*--.*")


class Script(NamedTuple):
    """A Lua script and the name under which a server remembers it."""

    text: bytes
    sha: str


def load_script(name: str) -> Script:
    """The script `lua/{name}.lua`, with what it uses of what all of them share."""
    return _SCRIPTS[name]


def _load(name: str) -> Script:
    text = _link(_read(name), [*_blocks("common"), *_blocks("saving"), *_blocks("items")]).encode()
    return Script(text, sha1(text, usedforsecurity=False).hexdigest())


def _link(text: str, blocks: list[str]) -> str:
    """`text` after the blocks that it uses, and that these use; only functions are left out."""
    used: list[str] = []
    for block in reversed(blocks):  # a block uses only what stands before it
        function = _FUNCTION.search(block)
        if function is None or re.search(rf"\b{function[1]}\b", "\n".join([*used, text])):
            used.insert(0, block)
    return "\n".join([*used, text])


@cache
def _blocks(name: str) -> list[str]:
    return [block for block in _read(name).split("\n\n") if block]


def _read(name: str) -> str:
    """A file without its comments, and without the line ends that these leave behind."""
    lines = (_FOLDER / f"{name}.lua").read_text(encoding="utf-8").splitlines()
    kept = (_COMMENT.sub("", line) for line in lines)
    return "\n".join(line for line, whole in zip(kept, lines, strict=True) if line or not whole)


# All at once, or a file would be read in somebody's event loop.
_SCRIPTS = {name: _load(name) for name in (file.name[:-4] for file in _FOLDER.iterdir())}
