"""Every name in Redis. The keys of a shard share one hash tag, so each script stays in one cluster slot.

Under `mq:{N}:` of shard N: `gen` names the generation; `demand` is a sorted set of topics by when they were last asked
for; `owner` holds the prefetcher that is at work. Under `mq:{N}:GENERATION:` and for topic T: `t:T` is a hash of bound,
horizon, ahead (the horizon that is being built) and fill (the token of the fill under way); `r:T` the ready refs, `s:T`
those that come due soon, by due; `k:T` those taken by a claimer, by when.

For buffered topics, under `mq:{N}:`: `buffer` is the stream of what is taken and not yet committed; `pushed` and
`flushed` are hashes of how far each writer's records went into it, and how far they are committed; `flusher` holds who
flushes.

Limits are the whole deployment's, under `mq:{limits}:`. `born` says when the data was lost last (0: never, as far as
is known), `processes` is a sorted set of those that asked for tokens, by when. `b:NAME` is the time at which a bucket
is full; `l:NAME` is a hash of what is known of a level: count, mark, added, at, and `pPERIOD`, what was reserved in a
minute and is not settled.

The scripts build the names of a generation themselves, since they read which one it is.
"""


def prefix(shard: int) -> str:
    return f"mq:{{{shard}}}:"


def generation(shard: int) -> str:
    return f"{prefix(shard)}gen"


def alive(shard: int) -> str:
    """Written by who wants to know whether the server takes anything."""
    return f"{prefix(shard)}alive"


def demand(shard: int) -> str:
    return f"{prefix(shard)}demand"


def owner(shard: int) -> str:
    return f"{prefix(shard)}owner"


def wake(shard: int) -> str:
    """A channel: topics in which something has arrived, or will be due at a time."""
    return f"{prefix(shard)}wake"


def hungry(shard: int) -> str:
    """A channel: topics whose ready refs have run out."""
    return f"{prefix(shard)}hungry"


def buffer(shard: int) -> str:
    return f"{prefix(shard)}buffer"


def pushed(shard: int) -> str:
    return f"{prefix(shard)}pushed"


def flushed(shard: int) -> str:
    return f"{prefix(shard)}flushed"


def flusher(shard: int) -> str:
    return f"{prefix(shard)}flusher"


def limits() -> str:
    return "mq:{limits}:"
