"""What stands in the tables, to the byte; `docs/format.md` explains it. It must not change."""

import json

import pytest
from conftest import Database

pytestmark = pytest.mark.parametrize("backend_name", ["sqlite"])


def test_the_rows_of_an_item_are_those_of_the_format(database: Database) -> None:
    index = {"embed": lambda texts: [[3.0, -4.0] for _ in texts], "dims": 2, "fields": ["text"]}
    store = database.open_store(index=index)
    value = {
        "text": "Äpfel, apples: where? 苹果?",
        "position": 7,
        "session": 2,
        "whole": 2.0,
        "yes": True,
        "deep": {"n": 1},
        "none": None,
        "long": "x" * 65,
        "lone": "\ud800",
    }
    store.put(("users", "a\x01b"), "k\x00", value, ttl=1.5)
    connection = store.backend._connection

    [(ns, namespace)] = connection.execute("select ns, namespace from sessionmem_namespaces")
    assert namespace == "/users\x01\x01a\x01\x02b\x01\x01"

    columns = "item_id, ns, key, value, ttl_minutes, tokens, length, position, session, asks"
    [row] = connection.execute(f"select {columns} from sessionmem_items")
    item_id, item_ns, key, stored, *rest = row
    assert (item_ns, key) == (ns, "k\x01\x01")
    assert stored.decode() == json.dumps(value, separators=(",", ":"))
    words = {"apfel": 1, "appl": 1, "where": 1, "苹": 1, "果": 1, "苹果": 1}
    names = ["=dtsbYnS_", "=KhBLOpIn", "=VQat43x8", "=-fVSwuJV", "=vHuo8tfc", "=QqgRXPj8"]
    tokens = words | dict.fromkeys(names, 0)
    written = json.dumps(tokens, ensure_ascii=False, separators=(",", ":"))
    assert rest == [1.5, written, 6, 7, "2", 1]

    [times] = connection.execute("select created_at, updated_at, expires_at from sessionmem_items")
    created_at, updated_at, expires_at = times
    assert created_at == updated_at
    assert expires_at == pytest.approx(created_at / 1e6 + 90, abs=0.01)

    postings = connection.execute("select ns, token, item_id, occurrences from sessionmem_postings")
    expected = {(ns, token, item_id, occurrences) for token, occurrences in tokens.items()}
    assert set(postings) == expected

    digest = bytes.fromhex("deed946a4da876335f6f52e91f19187e")
    [vector] = connection.execute("select item_id, digest, vector from sessionmem_vectors")
    assert vector == (item_id, digest, bytes.fromhex("9a99193fcdcc4cbf"))
