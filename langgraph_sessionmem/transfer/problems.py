"""What did not arrive as it left: all of it counted, the first of it kept."""

from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

MOST_PROBLEMS: Final = 1_000
"""So many are kept in a report; all are counted."""

_LOST: Final = frozenset(
    {"BackendUnavailable", "OperationalError", "InterfaceError", "ConnectionError"}
)

P = TypeVar("P")


@dataclass(slots=True)
class Problems(Generic[P]):
    """The problems of a copy.

    Attributes:
        problem_count: how many there were.
        problems: the first of them.
    """

    problem_count: int = 0
    problems: list[P] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the target has everything, and has it as the source."""
        return not self.problem_count

    def add(self, problem: P) -> None:
        """Count a problem, and keep it if there is room."""
        self.problem_count += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)


def is_lost(error: Exception) -> bool:
    """Whether it is one of the drivers' or ours after which nothing else would fare better."""
    return bool(_LOST & {kind.__name__ for kind in type(error).__mro__})
