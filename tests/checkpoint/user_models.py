"""Data classes of a user's own, in a module that programs import."""

import dataclasses
import enum
from typing import NamedTuple

from pydantic import BaseModel, Field, SecretStr
from pydantic.v1 import BaseModel as OldBaseModel


class Status(enum.Enum):
    OPEN = "open"
    CLOSED = 2


class Level(enum.IntEnum):
    LOW = 1


class Item(BaseModel):
    name: str
    status: Status = Status.OPEN


class Order(BaseModel):
    number: int = Field(gt=0)
    items: list[Item] = []
    note: str | None = None


class Login(BaseModel):
    password: SecretStr


class OldOrder(OldBaseModel):
    number: int


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0
    total: int = dataclasses.field(init=False)
    label: str = dataclasses.field(init=False, default="")

    def __post_init__(self) -> None:
        self.total = self.x + self.y


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    point: Point
    tags: list[str]


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Plain:
    """No data class; nothing may make one from stored data."""

    made = 0

    def __init__(self, *args: object, **keywords: object) -> None:
        type(self).made += 1


def call(*args: object, **keywords: object) -> None:
    Plain.made += 1
