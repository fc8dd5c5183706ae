"""Threads of LangGraph's Redis saver come in as well.

It needs Redis with the modules for JSON and search, which no wheel for every platform has: these
tests are there when `SESSIONMEM_TEST_REDIS_STACK_URL` names such a server, of which they flush
the database, and `langgraph-checkpoint-redis` is installed.
"""

import importlib
import os
from typing import Any

import pytest
import redis
from conftest import Face
from conversations import THREADS, config_of, fill, make_graph
from langgraph.types import Command

from langgraph_sessionmem.transfer import acopy_saver, copy_saver

STACK_URL = os.environ.get("SESSIONMEM_TEST_REDIS_STACK_URL")

if STACK_URL:

    @pytest.mark.parametrize("backend_name", ["sqlite"])
    @pytest.mark.filterwarnings("ignore")  # not ours
    async def test_threads_of_the_official_redis_saver_come_in_and_go_on(saver: Face) -> None:
        with redis.Redis.from_url(STACK_URL) as client:
            client.flushdb()
        module = importlib.import_module("langgraph.checkpoint.redis")
        with module.RedisSaver.from_conn_string(STACK_URL) as blocking:
            blocking.setup()
            await fill(Face(blocking, is_async=False))
            report: Any
            if saver.is_async:
                module = importlib.import_module("langgraph.checkpoint.redis.aio")
                async with module.AsyncRedisSaver.from_conn_string(STACK_URL) as source:
                    await source.asetup()
                    report = await acopy_saver(source, saver.target)
            else:
                report = copy_saver(blocking, saver.target)
            assert report.ok, report.problems
            assert (report.threads, report.compared) == (len(THREADS), report.checkpoints)
            for thread_id in THREADS:
                before = make_graph(blocking).invoke(Command(resume="yes"), config_of(thread_id))
                graph = Face(make_graph(saver.target), saver.is_async)
                after = await graph("invoke", Command(resume="yes"), config_of(thread_id))
                del before["kept"], after["kept"]  # the Redis saver loses a DeltaChannel's writes
                assert after == before
