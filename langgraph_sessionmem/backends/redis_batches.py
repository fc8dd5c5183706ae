"""Commands of one event loop, sent together: what waits for a free lane goes out as one batch."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

Command: TypeAlias = Sequence[bytes | str | int]
_Waiting: TypeAlias = tuple[Command, asyncio.Future[Any]]

LANES = 4
"""Batches that may be under way at once, so that a large answer doesn't hold up all others."""
BATCH = 64
"""Commands of a batch at the most."""


class Batches:
    """Sends commands over an asyncio client of one node; a lone one goes out by itself, at once.

    Args:
        client: the client.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._waiting: list[_Waiting] = []
        self._busy = 0

    async def execute(self, command: Command) -> Any:
        """The answer to a command.

        Raises:
            redis.RedisError: the server refused it, or can't be reached.
        """
        if not self._busy:
            self._busy = 1
            try:
                return await self._client.execute_command(*command)
            finally:
                self._free_lane()
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        self._waiting.append((command, answer))
        if self._busy < LANES:
            self._busy += 1
            loop.call_soon(self._start)  # after all who ask in this turn of the loop
        return await answer

    def _free_lane(self) -> None:
        self._busy -= 1
        if self._waiting and self._busy < LANES:
            self._busy += 1
            self._start()

    def _start(self) -> None:
        """Send what waits on a lane that was taken."""
        taken, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
        batch = [waiting for waiting in taken if not waiting[1].done()]
        if not batch:
            self._free_lane()
            return
        sending = asyncio.get_running_loop().create_task(self._send(batch))
        sending.add_done_callback(partial(self._finish, batch))
        for _, answer in batch:
            answer.add_done_callback(partial(_give_up, batch, sending))

    async def _send(self, batch: Sequence[_Waiting]) -> list[Any]:
        if len(batch) == 1:
            return [await self._client.execute_command(*batch[0][0])]
        async with self._client.pipeline(transaction=False) as pipeline:
            for command, _ in batch:
                pipeline.execute_command(*command)
            answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers

    def _finish(self, batch: Sequence[_Waiting], sending: asyncio.Task[list[Any]]) -> None:
        """Give every caller its answer, or the error that kept it away."""
        self._free_lane()
        if sending.cancelled():
            for _, answer in batch:
                answer.cancel()
            return
        error = sending.exception()
        answers = sending.result() if error is None else [error] * len(batch)
        for (_, answer), found in zip(batch, answers, strict=True):
            if answer.done():
                continue
            if isinstance(found, BaseException):
                answer.set_exception(found)
            else:
                answer.set_result(found)


def _give_up(
    batch: Sequence[_Waiting], sending: asyncio.Task[list[Any]], _: asyncio.Future[Any]
) -> None:
    """Stop sending when nobody waits any more: a server that says nothing would hold its lane."""
    if all(answer.done() for _, answer in batch):
        sending.cancel()
