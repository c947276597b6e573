"""A way through the states as lines to read: who did what, and what was there after it."""

from collections.abc import Iterable

from tests.model.state import EVERYTHING, NOTHING, Ref, World

BOUNDS = {NOTHING: "nothing", EVERYTHING: "everything"}


def tell(way: Iterable[tuple[str, World]]) -> tuple[str, ...]:
    return tuple(f"{move:32} t={world.now} {_rows(world)} {_keys(world)}" for move, world in way)


def _rows(world: World) -> str:
    rows = (_shown(row.ref) + ("*" if row.until is not None else "") for row in world.rows.values())
    return f"rows [{' '.join(rows)}]"


def _keys(world: World) -> str:
    topic = world.topic
    if topic is None:
        return "cold"
    sets = {"ready": topic.ready, "soon": topic.soon, "taken": {ref for ref, _ in topic.taken}}
    shown = " ".join(f"{name} [{' '.join(map(_shown, sorted(refs)))}]" for name, refs in sets.items())
    bound = BOUNDS.get(topic.bound) or "/".join(map(str, topic.bound))
    return f"{shown} bound {bound} horizon {topic.horizon} building {topic.building} fill {topic.fill}"


def _shown(ref: Ref) -> str:
    """Priority, due, id and epoch; a star behind it says that the row is leased."""
    return f"{ref.priority}/{ref.due}/{ref.id}@{ref.epoch}"
