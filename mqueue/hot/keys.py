"""Every name in Redis. The keys of a shard share one hash tag, so each script stays in one cluster slot.

Under `mq:{N}:` of shard N: `gen` names the generation; `demand` is a sorted set of topics by when they were last asked
for; `owner` holds the prefetcher that is at work. Under `mq:{N}:GENERATION:` and for topic T: `t:T` is a hash of bound,
horizon, ahead (the horizon that is being built) and fill (the token of the fill under way); `r:T` the ready refs, `s:T`
those that come due soon, by due; `k:T` those taken by a claimer, by when.

The scripts build the names of a generation themselves, since they read which one it is.
"""


def prefix(shard: int) -> str:
    return f"mq:{{{shard}}}:"


def generation(shard: int) -> str:
    return f"{prefix(shard)}gen"


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
