"""OpenTelemetry spans and metrics of what is done to a database. Nothing of its content.

There is nothing to switch on: where the program has set a tracer or a meter provider, each
operation is a span and is measured. Otherwise an operation costs one look whether it has. Neither
ids nor values are ever told: names, counts, sizes in bytes, durations and outcomes are.

| span `sessionmem.<operation>` | |
|---|---|
| `db.system.name` | `sqlite`, `postgresql` or `redis` |
| `sessionmem.operation` | the method of the saver: `put`, `get_tuple`, `list` (one page), … |
| `sessionmem.calls` | primitives, each one round trip |
| `sessionmem.attempts` | how often the operation ran; more than 1 after a retry |
| `sessionmem.rows_read`, `sessionmem.bytes_read` | checkpoints, elements, writes, threads |
| `sessionmem.rows_written`, `sessionmem.bytes_written` | likewise |
| `sessionmem.outcome` | `ok`, what refused a save (`log taken`, `deleted`, …), or `error` |
| `error.type` | the class of the error, if there was one |

| metric | |
|---|---|
| `sessionmem.operation.duration` | a histogram in seconds |
| `sessionmem.operation.bytes_read`, `sessionmem.operation.bytes_written` | counters |

The metrics have the span's `db.system.name`, `sessionmem.operation`, `sessionmem.outcome` and
`error.type`.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from typing_extensions import override

from langgraph_sessionmem.backends.base import Backend, Operation, Records
from langgraph_sessionmem.rows import Outcome, Saved

T = TypeVar("T")

SCOPE = "langgraph_sessionmem"
"""The name of the instrumentation."""

_SYSTEMS = {"postgres": "postgresql"}
_STEPS = {
    "count_due": "sweep",
    "drop": "sweep",
    "idle": "sweep",
    "cut": "sweep",
    "apply": "apply_ttl",
    "page": "threads",
    "verify_steps": "verify",
}
"""Steps of the work on many threads, and what they belong to."""


def observed(backend: Backend) -> Backend:
    """The backend, with its operations told to OpenTelemetry."""
    found: Any = Observed(backend)  # what isn't told is the backend's own
    return found  # type: ignore[no-any-return]  # as above


class Observed:
    """A backend whose operations are told to OpenTelemetry; everything else is the backend's own.

    Args:
        backend: the backend.
    """

    _backend: Backend
    _system: str

    def __init__(self, backend: Backend) -> None:
        module = type(backend).__module__.rpartition(".")[2]
        object.__setattr__(self, "_backend", backend)
        object.__setattr__(self, "_system", _SYSTEMS.get(module, module))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    @override
    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._backend, name, value)

    def run(self, operation: Operation[T]) -> T:
        """`Backend.run`."""
        if not _is_listened_to():
            return self._backend.run(operation)
        with _observing(self._system, _name(operation, "")) as seen:
            return self._backend.run(lambda records: operation(seen.watch(records)))

    async def arun(self, operation: Operation[T]) -> T:
        """`Backend.arun`."""
        if not _is_listened_to():
            return await self._backend.arun(operation)
        with _observing(self._system, _name(operation, "a")) as seen:
            return await self._backend.arun(lambda records: operation(seen.watch(records)))


class Seen:
    """What an operation did, in numbers."""

    def __init__(self) -> None:
        self.calls = self.attempts = 0
        self.rows_read = self.bytes_read = self.rows_written = self.bytes_written = 0
        self.outcome = "ok"

    def watch(self, records: Records) -> Records:
        """The same records, watched."""
        self.attempts += 1
        watched: Any = _Watched(records, self)  # it passes every call on
        return watched  # type: ignore[no-any-return]  # as above

    def call(self, name: str, arguments: list[object], result: object) -> None:
        """Count one primitive."""
        self.calls += 1
        if name.startswith("save_"):
            rows, size = _measure(arguments)
            self.rows_written += rows
            self.bytes_written += size
        else:
            rows, size = _measure(result)
            self.rows_read += rows
            self.bytes_read += size
        if isinstance(result, Saved):
            self.outcome = "ok" if result.outcome is Outcome.SAVED else result.outcome.value


class _Watched:
    """Records that count what goes through them."""

    __slots__ = ("_records", "_seen")

    def __init__(self, records: Records, seen: Seen) -> None:
        self._records, self._seen = records, seen

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._records, name)
        return self._watch(name, found) if callable(found) else found

    def _watch(self, name: str, primitive: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(*arguments: Any, **keywords: Any) -> Any:
            result = await primitive(*arguments, **keywords)
            self._seen.call(name, [*arguments, *keywords.values()], result)
            return result

        return watched


def _is_listened_to() -> bool:
    # Whoever sets a provider has imported these modules. Asking OpenTelemetry itself costs eight
    # times as much; where it keeps its providers elsewhere one day, it is asked after all.
    trace = sys.modules.get("opentelemetry.trace")
    metrics = sys.modules.get("opentelemetry.metrics._internal")
    return (trace is not None and getattr(trace, "_TRACER_PROVIDER", trace) is not None) or (
        metrics is not None and getattr(metrics, "_METER_PROVIDER", metrics) is not None
    )


@contextmanager
def _observing(system: str, operation: str) -> Iterator[Seen]:
    trace = import_module("opentelemetry.trace")
    seen, started = Seen(), time.perf_counter()
    facts = {"db.system.name": system, "sessionmem.operation": operation}
    with trace.get_tracer(SCOPE).start_as_current_span(
        f"sessionmem.{operation}",
        kind=trace.SpanKind.CLIENT,
        # What an error says names ids and values.
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield seen
        except BaseException as error:
            facts["error.type"] = type(error).__qualname__
            seen.outcome = "error"
            span.set_status(trace.StatusCode.ERROR)
            raise
        finally:
            facts["sessionmem.outcome"] = seen.outcome
            numbers = ("calls", "attempts", "rows_read", "bytes_read", "rows_written")
            for name in (*numbers, "bytes_written"):
                span.set_attribute(f"sessionmem.{name}", getattr(seen, name))
            span.set_attributes(facts)
            meters = _meters(import_module("opentelemetry.metrics").get_meter_provider())
            meters.duration.record(time.perf_counter() - started, facts)
            meters.bytes_read.add(seen.bytes_read, facts)
            meters.bytes_written.add(seen.bytes_written, facts)


class _Meters(NamedTuple):
    duration: Any
    bytes_read: Any
    bytes_written: Any


@cache
def _meters(provider: Any) -> _Meters:
    meter, name = provider.get_meter(SCOPE), "sessionmem.operation"
    return _Meters(
        meter.create_histogram(f"{name}.duration", "s", "How long operations took."),
        meter.create_counter(f"{name}.bytes_read", "By", "What operations read."),
        meter.create_counter(f"{name}.bytes_written", "By", "What operations wrote."),
    )


def _name(operation: Any, face: str) -> str:
    """What an operation is for: the public method or the function that it was written in."""
    function = getattr(operation, "func", operation)  # of a partial
    written_in: str = function.__qualname__.partition(".<locals>")[0]
    scope, _, name = written_in.rpartition(".")
    # Only methods have two faces; `apply` is no async `pply`.
    name = name.removeprefix("_").removeprefix(face if scope else "")
    return _STEPS.get(name, name)


def _measure(value: object) -> tuple[int, int]:
    """How many rows there are in a value, and how many bytes in all of them."""
    if isinstance(value, bytes):
        return 0, len(value)
    if not isinstance(value, tuple | list):
        return 0, 0
    parts = [_measure(part) for part in value]
    is_row = hasattr(value, "_fields") and (
        type(value).__name__.endswith("Row") or any(isinstance(part, bytes) for part in value)
    )
    return is_row + sum(rows for rows, _ in parts), sum(size for _, size in parts)
