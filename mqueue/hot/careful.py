"""A script that believes what the present run of the Redis server has built, and nothing else.

A server that is restarted may come back with sets that are older than what we told it; one that takes over from another
may have missed the last of it. So the script has the run written into it, and says where a generation is of another."""

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

RUN = 16  # characters of a run's name, with which the names of its generations begin


async def run_of(client: "Redis") -> str:
    """The server's."""
    return str((await client.info("server"))["run_id"])[:RUN]


class CarefulScript:
    """For a text that knows of a `RUN`."""

    def __init__(self, client: "Redis", text: str) -> None:
        self._client, self._text = client, text
        self._sha = ""

    async def __call__(self, keys: Sequence[str], args: Sequence[Any]) -> Any:
        if self._sha:
            try:
                return await self._client.evalsha(self._sha, len(keys), *keys, *args)
            except NoScriptError:
                pass  # another run, or somebody has flushed it
        text = f"local RUN = '{await run_of(self._client)}'\n{self._text}"
        self._sha = await self._client.script_load(text)
        return await self._client.evalsha(self._sha, len(keys), *keys, *args)

    def ask_again(self) -> None:
        """For the run, at the next call."""
        self._sha = ""
