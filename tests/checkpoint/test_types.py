"""Data is never code: what stored data may become, and that nothing else is ever called."""

import collections
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
import user_models
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde import jsonplus
from pydantic import BaseModel
from threads import new_checkpoint, next_id, place

from langgraph_sessionmem import SessionSaver
from langgraph_sessionmem.checkpoint.codec import BYTES, JSONPLUS, LIST, MESSAGE, PLAIN, Codec
from langgraph_sessionmem.checkpoint.head import unpack_head
from langgraph_sessionmem.checkpoint.types import Types
from langgraph_sessionmem.errors import CorruptData, InvalidArgument, TypeNotAllowed

CODEC = Codec(Types())
UNIMPORTED = "sessionmem_test_never_imported"


def forged(code: int, *content: Any) -> bytes:
    """A stored value that a JsonPlus extension makes up."""
    extension = ormsgpack.Ext(code, ormsgpack.packb(content))
    return JSONPLUS + ormsgpack.packb({"deep": [extension]})


SINGLE, POSITIONAL, KEYWORDS = (
    jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG,
    jsonplus.EXT_CONSTRUCTOR_POS_ARGS,
    jsonplus.EXT_CONSTRUCTOR_KW_ARGS,
)
METHOD, MODEL_V1, MODEL = (
    jsonplus.EXT_METHOD_SINGLE_ARG,
    jsonplus.EXT_PYDANTIC_V1,
    jsonplus.EXT_PYDANTIC_V2,
)

REFUSED: list[tuple[Any, ...]] = [
    (SINGLE, "os", "system", "touch forged"),
    (SINGLE, "builtins", "eval", "open('forged', 'w')"),
    (SINGLE, "builtins", "exec", "open('forged', 'w')"),
    (POSITIONAL, "builtins", "open", ["forged", "w"]),
    (POSITIONAL, "subprocess", "Popen", [["touch", "forged"]]),
    (KEYWORDS, "subprocess", "run", {"args": ["touch", "forged"]}),
    (SINGLE, "importlib", "import_module", UNIMPORTED),
    (SINGLE, UNIMPORTED, "Anything", 1),
    (SINGLE, "user_models", "call", 1),
    (KEYWORDS, "user_models", "Plain", {}),
    (MODEL, "user_models", "Plain", {}),
    (MODEL_V1, "user_models", "call", {}),
    (POSITIONAL, "user_models", "BaseModel", []),
    (SINGLE, "user_models", "Missing", 1),
    (SINGLE, "user_models", "Order.__init__", 1),
    (SINGLE, "user_models", "", 1),
    (METHOD, "datetime", "datetime", "2026-01-01", "strptime"),
    (METHOD, "user_models", "Order", "{}", "model_validate_json"),
    (METHOD, "pathlib", "Path", "forged", "touch"),
    (METHOD, "os", "system", "touch forged", "__call__"),
    (SINGLE, "pickle", "loads", pickle.dumps(user_models.Pair(1))),
]


@pytest.fixture
def nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails if anything was called, imported or touched."""
    (tmp_path / f"{UNIMPORTED}.py").write_text("open('forged', 'w').close()")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    user_models.Plain.made = 0
    yield
    assert user_models.Plain.made == 0
    assert UNIMPORTED not in sys.modules
    assert not Path("forged").exists()


@pytest.mark.usefixtures("nothing_happens")
@pytest.mark.parametrize("content", REFUSED, ids=lambda content: ".".join(content[1:3]))
def test_stored_data_that_names_anything_else_is_refused(content: tuple[Any, ...]) -> None:
    with pytest.raises(TypeNotAllowed) as refusal:
        CODEC.decode(forged(*content))
    assert refusal.value.module == content[1]
    assert "types=[" in str(refusal.value)


@pytest.mark.usefixtures("nothing_happens")
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"\x00", b"\x06x", b"\x7f", b"\xff\xff", b"\x10x", b"\x20x"),
        *(
            MESSAGE,
            MESSAGE + b"\x63\x80",
            MESSAGE + b"\x00",
            MESSAGE + b"\x00\x80",
            MESSAGE + b"\x00\xc0",
        ),
        *(
            PLAIN,
            PLAIN + b"\x82",
            PLAIN + b"\xc1",
            PLAIN + b"\xdb\xff\xff\xff\xff",
        ),
        *(
            JSONPLUS,
            JSONPLUS + b"\x81",
            LIST + b"\x01",
            LIST + ormsgpack.packb([1]),
            LIST + b"\x92",
        ),
        *(b"\x07\xc0", b"\x07" + ormsgpack.packb(["msgpack", b"\xc0"])),
        forged(99, "os", "system", "touch forged"),
        forged(POSITIONAL, "user_models", "Order", ["too", "many"]),
        forged(SINGLE, "user_models", "Status", "no such status"),
        forged(KEYWORDS),
        forged(jsonplus.EXT_NUMPY_ARRAY, "O", [1], "C", b"\x00" * 8),
        PLAIN + ormsgpack.packb(ormsgpack.Ext(5, b"x")),
        b"\x80\x04" + pickle.dumps(user_models.Pair(1)),
    ],
)
def test_bytes_in_no_form_of_ours_are_refused(body: bytes) -> None:
    with pytest.raises(CorruptData):
        CODEC.decode(body)


@given(
    st.sampled_from([HumanMessage("x" * 9, id="i"), {"a": [1, "x"]}, {1: user_models.Pair(1)}]),
    st.data(),
)
def test_a_stored_value_cut_short_is_refused_and_never_another(
    value: Any, data: st.DataObject
) -> None:
    body = CODEC.encode(value)
    with pytest.raises(CorruptData):
        CODEC.decode(body[: data.draw(st.integers(0, len(body) - 1))])


@given(st.binary(max_size=40))
def test_a_head_of_other_bytes_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptData):
        unpack_head(body, CODEC)
    with pytest.raises(CorruptData):
        unpack_head(b"\x01" + body, CODEC)


class Mine(BaseModel):
    n: int


def test_a_class_made_in_a_function_comes_back_where_it_is_named() -> None:
    class Local(BaseModel):
        n: int

    body = CODEC.encode(Local(n=1))
    with pytest.raises(TypeNotAllowed, match=r"types=\[Local\]") as refusal:
        CODEC.decode(body)
    assert (refusal.value.module, refusal.value.name) == (__name__, "Local")
    assert Codec(Types([Local])).decode(body) == Local(n=1)


def test_naming_a_module_allows_its_own_classes_only(tmp_path: Path, monkeypatch: Any) -> None:
    source = (
        "from subprocess import Popen, run\nclass Own:\n    def __init__(self, n): self.n = n\n"
    )
    (tmp_path / "sessionmem_test_named.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    codec = Codec(Types(["sessionmem_test_named"]))
    found = codec.decode(forged(SINGLE, "sessionmem_test_named", "Own", 5))
    assert found["deep"][0].n == 5
    for name in ("Popen", "run", "Missing"):
        with pytest.raises(TypeNotAllowed):
            codec.decode(forged(SINGLE, "sessionmem_test_named", name, ["true"]))
    with pytest.raises(TypeNotAllowed):
        Codec(Types(["sessionmem_test_not_there"])).decode(
            forged(SINGLE, "sessionmem_test_not_there", "Own", 5)
        )


def test_only_classes_and_names_of_modules_can_be_allowed() -> None:
    for bad in (5, None, user_models.call, ("user_models", "Order")):
        with pytest.raises(InvalidArgument, match="types="):
            SessionSaver(types=[bad])  # type: ignore[list-item]


def test_a_path_of_another_python_is_a_path() -> None:
    kind = type(Path()).__name__
    found = CODEC.decode(forged(POSITIONAL, "pathlib._local", kind, ["a", "b"]))
    assert found["deep"] == [Path("a/b")]


def test_with_an_allowlist_that_list_alone_decides() -> None:
    saver = SessionSaver(types=[collections.Counter])
    strict: Any = saver.with_allowlist({("user_models", "Pair")})
    values = {"pair": user_models.Pair(1), "message": HumanMessage("x")}
    versions = dict.fromkeys([*values, "order"], "1")
    config = saver.put(place(), new_checkpoint(next_id(), values, versions), {}, versions)
    assert strict.get_tuple(config).checkpoint["channel_values"] == values
    values["order"] = user_models.Order(number=1)
    saver.put(place(), new_checkpoint(next_id(), values, versions), {}, versions)
    assert saver.get_tuple(place()).checkpoint["channel_values"] == values  # type: ignore[union-attr]
    with pytest.raises(TypeNotAllowed, match="Order"):
        strict.get_tuple(place())
    assert strict.backend is saver.backend
    strict.close()


def test_a_custom_serializer_is_required_to_read_what_it_wrote(tmp_path: Path) -> None:
    path = str(tmp_path / "own.db")
    versions = {"a": "1", "list": "1"}
    checkpoint = new_checkpoint(next_id(), {"a": 1, "list": ["x" * 50] * 3}, versions)
    with SessionSaver(path, serde=jsonplus.JsonPlusSerializer()) as saver:
        saver.put(place(), checkpoint, {}, versions)
        assert saver.get_tuple(place()).checkpoint == checkpoint  # type: ignore[union-attr]
    with SessionSaver(path) as plain, pytest.raises(CorruptData, match="serde="):
        plain.get_tuple(place())
    assert os.path.exists(path)
    assert CODEC.encode(b"x")[:1] == BYTES
