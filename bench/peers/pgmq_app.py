"""The HTTP server of pgmq on its asyncpg client; its own command takes the one in threads, which is slower."""

import os
from typing import Any

from pgmq.api import create_app
from pgmq.async_queue import PGMQueue


def make() -> Any:
    """For uvicorn; PG_HOST and the like are in the environment."""
    return create_app(queue=PGMQueue(init_extension=False, pool_size=int(os.environ["POOL"])))
