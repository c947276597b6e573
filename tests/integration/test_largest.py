"""The largest batch, and more topics than a page of /stats has; on databases of its own, which others need not read."""

from mqueue.core.messages import MAX_BATCH, StatsPage
from mqueue.engine.engine import Engine
from mqueue.engine.look import TOPICS_A_PAGE
from tests.integration.messages import message, send
from tests.servers import conf_of


async def test_as_many_messages_as_may_be_in_one_request_and_all_their_topics_by_pages(fresh_databases: str) -> None:
    engine = Engine(conf_of(fresh_databases, 0))
    await engine.open()
    try:
        names = [f"t{n:04}" for n in range(2 * TOPICS_A_PAGE + 100)]
        sent = [message("largest", names[n % len(names)], n) for n in range(MAX_BATCH)]
        assert len(set(await send(engine, *sent))) == MAX_BATCH == 10_000
        found, sizes = [], []
        while page := await engine.look.stats(StatsPage("largest", after=found[-1].topic if found else "")):
            found += page
            sizes.append(len(page))
        assert [one.topic for one in found] == names
        assert sum(one.ready for one in found) == MAX_BATCH
        assert max(sizes) <= TOPICS_A_PAGE
    finally:
        await engine.close()
