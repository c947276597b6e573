"""Small cases; each name says what meets."""

from tests.model.dequeue import dequeue
from tests.model.disasters import FLUSH, RESTART, SAVE
from tests.model.explorer import Case
from tests.model.prefetcher import CHECK, COOL, PAGE, fill, look_ahead, trim
from tests.model.settlers import ACK, BURY, LAPSE, RELEASE, nack
from tests.model.writers import cancel, enqueue, enqueue_unreached, locked_patch, patch, replay

HOT = (look_ahead(9), fill())
BUILD = (look_ahead(9), fill(1), fill(1))

CASES = {
    "producers while a topic is built": Case(
        {"producer": (enqueue(1),), "other": (enqueue(2, 2),), "prefetcher": BUILD, "consumer": (dequeue(), dequeue())},
        setup=(enqueue(3, 1),),
    ),
    "a trim while another fills": Case(
        {
            "producer": (enqueue(4, 1),),
            "prefetcher": (fill(1), fill()),
            "trimmer": (trim(1),),
            "consumer": (dequeue(), dequeue()),
        },
        setup=(enqueue(1), enqueue(2, 2), look_ahead(9), fill(1), enqueue(3, 3)),
    ),
    "messages come due while the horizon is moved": Case(
        {
            "producer": (enqueue(1, 0, 1),),
            "other": (enqueue(2, 1),),
            "prefetcher": (look_ahead(2),),
            "consumer": (dequeue(),),
        },
        setup=(enqueue(3, 2), look_ahead(1), fill()),
        ticks=2,
    ),
    "messages come due while a topic is built": Case(
        {"producer": (enqueue(1, 0, 1),), "prefetcher": (look_ahead(3), fill(1), fill()), "consumer": (dequeue(),)},
        setup=(enqueue(2, 1, 1), enqueue(3, 2)),
        ticks=2,
    ),
    "a fill before the look ahead": Case(
        {"prefetcher": (fill(), look_ahead(3)), "consumer": (dequeue(),)},
        setup=(enqueue(1, 0, 1), enqueue(2, 1)),
        ticks=1,
    ),
    "a message is moved": Case(
        {
            "patcher": (patch(1, 3), patch(2, 0)),
            "prefetcher": (fill(1), fill()),
            "consumer": (dequeue(), ACK, dequeue()),
        },
        setup=(enqueue(1), enqueue(2, 2), enqueue(3, 1), look_ahead(9), fill(1)),
    ),
    "a message is moved into the future": Case(
        {"patcher": (patch(1, 0, 1),), "prefetcher": (look_ahead(4),), "consumer": (dequeue(), ACK, dequeue())},
        setup=(enqueue(1), enqueue(3, 1), look_ahead(2), fill()),
        ticks=2,
    ),
    "leases end": Case(
        {"one": (dequeue(), nack()), "two": (dequeue(), RELEASE), "lapser": (LAPSE, LAPSE), "three": (dequeue(),)},
        setup=(enqueue(1), enqueue(2, 1), *HOT),
        ticks=1,
    ),
    "cancelled": Case(
        {"canceller": (cancel(1),), "one": (dequeue(), ACK), "two": (dequeue(2), ACK), "prefetcher": (fill(1), fill())},
        setup=(enqueue(1), enqueue(2, 1), look_ahead(9)),
    ),
    "dead by ttl and replayed": Case(
        {
            "gravedigger": (BURY,),
            "replayer": (replay(1),),
            "producer": (enqueue(2),),
            "consumer": (dequeue(), dequeue()),
        },
        setup=(enqueue(1, 0, 0, 1), *HOT),
        ticks=2,
    ),
    "a producer is killed": Case(
        {"producer": (enqueue(1), enqueue(4, 0, 1)), "prefetcher": (fill(1), PAGE), "consumer": (dequeue(), dequeue())},
        setup=(enqueue(3, 2), look_ahead(9)),
        mortal=("producer",),
        page=True,
        ticks=1,
    ),
    "a consumer is killed": Case(
        {
            "one": (dequeue(2),),
            "two": (dequeue(), ACK, dequeue()),
            "lapser": (LAPSE,),
            "prefetcher": (trim(1), fill(1)),
        },
        setup=(enqueue(1), enqueue(2, 1), enqueue(3, 1), *HOT),
        mortal=("one", "two"),
        ticks=1,
    ),
    "a settler is killed": Case(
        {"one": (dequeue(), nack()), "two": (dequeue(), RELEASE), "patcher": (patch(2, 0),), "lapser": (LAPSE,)},
        setup=(enqueue(1), enqueue(2, 1), *HOT),
        mortal=("one", "two", "patcher", "lapser"),
        ticks=1,
        page=True,
    ),
    "a prefetcher is killed": Case(
        {"producer": (enqueue(2, 1, 1),), "first": BUILD, "second": (look_ahead(4), fill()), "consumer": (dequeue(),)},
        setup=(enqueue(3, 2),),
        mortal=("first",),
        ticks=1,
    ),
    "two prefetchers look ahead": Case(
        {
            "producer": (enqueue(1, 0, 3),),
            "first": (look_ahead(2),),
            "second": (look_ahead(4),),
            "consumer": (dequeue(),),
        },
        setup=(enqueue(2, 1), look_ahead(1), fill()),
        ticks=2,
    ),
    "two prefetchers fill": Case(
        {
            "producer": (enqueue(1), enqueue(4, 3)),
            "first": (look_ahead(9), fill(1), fill()),
            "second": (fill(1), fill()),
            "consumer": (dequeue(),),
        },
        setup=(enqueue(2, 1), enqueue(3, 2), look_ahead(9)),
    ),
    "a topic is made cold while another builds": Case(
        {
            "producer": (enqueue(1, 0, 1),),
            "first": (look_ahead(3), fill()),
            "second": (COOL, look_ahead(3), fill()),
            "consumer": (dequeue(), dequeue()),
        },
        setup=(enqueue(2, 2), look_ahead(1), fill(1)),
        ticks=1,
    ),
    "a topic is made cold in the midst of a fill": Case(
        {
            "producer": (enqueue(1),),
            "first": (fill(),),
            "second": (COOL, look_ahead(3), fill()),
            "consumer": (dequeue(), dequeue()),
        },
        setup=(enqueue(2, 1), look_ahead(9)),
    ),
    "Redis is emptied": Case(
        {
            "producer": (enqueue(1, 1), enqueue(4, 0, 1)),
            "prefetcher": (CHECK, look_ahead(3), fill()),
            "disaster": (FLUSH,),
            "consumer": (dequeue(), ACK),
        },
        setup=(enqueue(2, 0), enqueue(3, 2), *HOT),
        ticks=1,
    ),
    "Redis comes back older": Case(
        {
            "producer": (enqueue(1, 0),),
            "prefetcher": (fill(1), CHECK, look_ahead(3), fill()),
            "disaster": (SAVE, RESTART),
            "consumer": (dequeue(), nack(), dequeue()),
        },
        setup=(enqueue(2, 1), enqueue(3, 2), look_ahead(9), fill(1)),
    ),
    "an offer fails": Case(
        {
            "producer": (enqueue_unreached(1),),
            "other": (enqueue(4, 1),),
            "prefetcher": (look_ahead(3), fill(1), fill()),
            "consumer": (dequeue(), dequeue()),
        },
        setup=(enqueue(2, 1), look_ahead(9), fill(1)),
    ),
    "a transaction with a lock is rolled back": Case(
        {"patcher": (locked_patch(1),), "consumer": (dequeue(),), "other": (dequeue(),)},
        setup=(enqueue(1), enqueue(2, 1), *HOT),
    ),
    "the clock of Redis is ahead": Case(
        {
            "producer": (enqueue(1, 0, 1),),
            "other": (enqueue(4, 3, 1),),
            "prefetcher": (fill(1), trim(1), fill()),
            "consumer": (dequeue(2),),
        },
        setup=(enqueue(2, 1), enqueue(3, 2), look_ahead(9)),
        ticks=2,
        skew=1,
    ),
    "the clock of Redis is behind": Case(
        {
            "producer": (enqueue(1, 0, 1), enqueue(4, 0)),
            "prefetcher": (look_ahead(4), fill(1)),
            "consumer": (dequeue(2),),
        },
        setup=(enqueue(2, 1), enqueue(3, 2), look_ahead(3), fill(1)),
        ticks=2,
        skew=-1,
    ),
}
