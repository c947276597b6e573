"""The pop of one shard, which a run of the Redis server knows only when the sets of an earlier run count no more.

A server that is restarted has forgotten its scripts, and its sets may be older than what we told it. So whoever finds
that it does not know this one looks for which run the sets were built, and ends them, before it loads the script."""

import hashlib
from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from mqueue.hot.keys import OVER, generation

END = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) end"


async def run_of(client: "Redis") -> str:
    """The server's, as the name of a generation begins."""
    return str((await client.info("server"))["run_id"])[:16]


class CarefulScript:
    def __init__(self, client: "Redis", text: str, shard: int) -> None:
        self._client, self._generation = client, generation(shard)
        self._text = f"{text}-- of shard {shard}\n"  # or one shard's would vouch for the sets of all
        self._sha = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, keys: Sequence[str], args: Sequence[Any]) -> Any:
        try:
            return await self._client.evalsha(self._sha, len(keys), *keys, *args)
        except NoScriptError:
            await self._end_an_earlier_run()
            await self._client.script_load(self._text)
            return await self._client.evalsha(self._sha, len(keys), *keys, *args)

    async def _end_an_earlier_run(self) -> None:
        """Its keys are swept when a prefetcher begins a generation."""
        found: Any = await self._client.get(self._generation)
        if found and not found.startswith((await run_of(self._client), OVER)):
            await self._client.eval(END, 1, self._generation, found, OVER + found)
