"""Operations are told to OpenTelemetry in numbers; nothing of what is stored is."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from secrets import token_hex
from typing import Any

import opentelemetry.metrics._internal
import opentelemetry.trace
import pytest
from conftest import Face
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from threads import Thread, place

from langgraph_sessionmem import SessionSaver
from langgraph_sessionmem.errors import ThreadDeleted

CANARY = "canary"
SYSTEMS = {"postgres": "postgresql", "valkey": "redis", "cluster": "redis"}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # A provider can be set only once in a process, and would stay for every other test.
    monkeypatch.setattr(opentelemetry.trace, "_TRACER_PROVIDER", provider)
    return exporter


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(opentelemetry.metrics._internal, "_METER_PROVIDER", provider)
    yield reader
    provider.shutdown()


def told(spans: InMemorySpanExporter) -> list[dict[str, Any]]:
    """The attributes of the spans since the last call, without their common beginning."""
    found = [dict(span.attributes or {}) for span in spans.get_finished_spans()]
    spans.clear()
    return [
        {name.removeprefix("sessionmem."): value for name, value in each.items()} for each in found
    ]


async def test_each_operation_is_a_span_with_its_numbers(
    saver: Face, spans: InMemorySpanExporter, backend_name: str
) -> None:
    thread = Thread(saver, "t")
    await saver("get_tuple", place("t"))
    spans.clear()
    config = await thread.put({"messages": [token_hex(250), token_hex(250)]})
    [put] = told(spans)
    assert put["operation"] == "put"
    assert put["db.system.name"] == SYSTEMS.get(backend_name, backend_name)
    assert (put["outcome"], put["calls"], put["attempts"]) == ("ok", 1, 1)
    assert (put["rows_written"], put["rows_read"]) == (3, 0)
    assert 500 < put["bytes_written"] < 2_000
    await thread.write([("messages", token_hex(150)), ("other", 1)])
    [write] = told(spans)
    assert (write["operation"], write["rows_written"]) == ("put_writes", 2)
    assert 150 < write["bytes_written"] < 600
    await saver("get_tuple", config)
    [read] = told(spans)
    assert (read["operation"], read["rows_written"]) == ("get_tuple", 0)
    assert read["rows_read"] >= 3  # elements may be remembered
    assert read["bytes_read"] > 200
    await saver("list", place("t"))
    [page] = told(spans)
    assert page["operation"] == "list"
    await saver("prune", ["t"])
    await saver("copy_thread", "t", "u")
    await saver("sweep")
    await saver("delete_thread", "t")
    names = {each["operation"] for each in told(spans)}
    assert names == {"prune", "copy_thread", "sweep", "delete_thread"}
    await saver("verify")
    assert {each["operation"] for each in told(spans)} == {"threads", "verify"}


@pytest.mark.parametrize("backend_name", ["sqlite", "postgres"])
async def test_an_error_is_told_by_its_class_alone(
    saver: Face, spans: InMemorySpanExporter
) -> None:
    thread = Thread(saver, CANARY)
    await thread.put({"a": 1})
    await saver("delete_thread", CANARY)
    spans.clear()
    with pytest.raises(ThreadDeleted):
        await thread.put({"a": 2})
    [span] = spans.get_finished_spans()
    assert not span.events
    assert span.status.description is None
    [failed] = told(spans)
    assert (failed["outcome"], failed["error.type"]) == ("error", "ThreadDeleted")


@pytest.mark.parametrize("backend_name", ["sqlite", "valkey"])
async def test_neither_ids_nor_values_are_told(
    saver: Face, spans: InMemorySpanExporter, meter: InMemoryMetricReader
) -> None:
    thread = Thread(saver, f"{CANARY}-thread", f"{CANARY}-namespace")
    metadata = {"run_id": f"{CANARY}-run", "owner": CANARY}
    for n in range(2):
        await thread.put({f"{CANARY}-channel": [CANARY * n], "x": CANARY * 40}, metadata=metadata)
    await thread.write([(f"{CANARY}-channel", CANARY)], f"{CANARY}-task", CANARY)
    await thread.load()
    await saver("list", None, filter={"owner": CANARY})
    await saver("set_ttl", f"{CANARY}-thread", timedelta(minutes=1))
    await saver("threads", prefix=CANARY)
    await saver("delete_for_runs", [f"{CANARY}-run"])
    assert len(spans.get_finished_spans()) >= 8
    assert CANARY not in "".join(span.to_json() for span in spans.get_finished_spans())
    data = meter.get_metrics_data()
    assert data is not None
    assert "sessionmem.operation.duration" in data.to_json()
    assert CANARY not in data.to_json()


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_durations_and_bytes_are_measured(saver: Face, meter: InMemoryMetricReader) -> None:
    thread = Thread(saver)
    for _ in range(3):
        await thread.put({"a": token_hex(500)})
    await thread.load()
    data = meter.get_metrics_data()
    assert data is not None
    metrics = {each.name: each for each in data.resource_metrics[0].scope_metrics[0].metrics}
    puts: dict[str, Any] = {
        name: next(
            point
            for point in metric.data.data_points
            if (point.attributes or {})["sessionmem.operation"] == "put"
        )
        for name, metric in metrics.items()
    }
    duration = puts["sessionmem.operation.duration"]
    assert duration.count == 3
    assert 0 < duration.sum < 30
    assert metrics["sessionmem.operation.duration"].unit == "s"
    assert 1_500 < puts["sessionmem.operation.bytes_written"].value < 6_000


@pytest.mark.parametrize("backend_name", ["sqlite"])
async def test_a_span_is_a_child_of_the_callers(saver: Face, spans: InMemorySpanExporter) -> None:
    with opentelemetry.trace.get_tracer("caller").start_as_current_span("turn") as turn:
        await Thread(saver).put({"a": 1})
    put, _ = spans.get_finished_spans()
    assert put.parent is not None
    assert put.parent.span_id == turn.get_span_context().span_id


def test_the_wrapped_backend_still_is_what_it_was() -> None:
    with SessionSaver() as saver:
        saver.backend.offset_seconds = 5
        assert saver.backend._backend.offset_seconds == 5  # type: ignore[attr-defined]
        with pytest.raises(AttributeError):
            saver.backend.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_without_opentelemetry_everything_works_and_nothing_is_imported() -> None:
    program = (
        "import asyncio, sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] == 'opentelemetry': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from langgraph_sessionmem import SessionSaver\n"
        "saver = SessionSaver()\n"
        "config = {'configurable': {'thread_id': 't'}}\n"
        "assert saver.get_tuple(config) is None\n"
        "assert asyncio.run(saver.aget_tuple(config)) is None\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
