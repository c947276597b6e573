"""What a message's life ought to be, in a few lines of Python: no clock but the order in which things happen."""

from dataclasses import dataclass, field

READY, SCHEDULED, LEASED = "ready", "scheduled", "leased"
ACKED, DEAD, CANCELLED, DELETED = "acked", "dead", "cancelled", "deleted"


@dataclass(eq=False)
class Receipt:
    """One lease. Whoever settles with it is told the same again; everybody else is told that it is stale."""

    text: str
    message: "Message"
    settled_by: str = ""
    told: str = ""


@dataclass(eq=False)
class Message:
    id: int
    priority: int
    max_retries: int
    due: int  # its place among all that ever became due; what lies ahead has none yet
    state: str
    attempts: int = 0
    lease: Receipt | None = None
    events: list[str] = field(default_factory=lambda: ["published"])

    @property
    def place(self) -> tuple[int, int, int]:
        return self.priority, self.due, self.id

    @property
    def waits(self) -> bool:
        return self.state in (READY, SCHEDULED)


class Model:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.receipts: list[Receipt] = []
        self._moment = 0

    def now(self) -> int:
        self._moment += 1
        return self._moment

    def ready(self) -> list[Message]:
        return sorted((one for one in self.messages if one.state == READY), key=lambda one: one.place)

    def counts(self) -> dict[str, int]:
        return {state: sum(one.state == state for one in self.messages) for state in (READY, SCHEDULED, LEASED, DEAD)}

    def add(self, number: int, priority: int, max_retries: int, *, later: bool, moment: int) -> None:
        self.messages.append(Message(number, priority, max_retries, moment, SCHEDULED if later else READY))

    def hand_out(self, message: Message, receipt: str) -> None:
        message.state, message.attempts = LEASED, message.attempts + 1
        message.events.append("delivered" if message.attempts == 1 else "redelivered")
        message.lease = Receipt(receipt, message)
        self.receipts.append(message.lease)

    def settle(self, receipt: Receipt, verb: str, *, later: bool, dead: bool) -> tuple[int, str]:
        """Status, and the state or the code that is told."""
        message = receipt.message
        if message.lease is not receipt:
            return (200, receipt.told) if receipt.settled_by == verb else (409, "stale_receipt")
        if verb == "extend":
            return 200, "extended"
        message.lease = None
        receipt.settled_by, receipt.told = verb, self._end(message, verb, later=later, dead=dead)
        return 200, receipt.told

    def _end(self, message: Message, verb: str, *, later: bool, dead: bool) -> str:
        if verb == "ack":
            message.state = ACKED
            message.events.append("acked")
            return "acked"
        if verb == "release":
            message.state, message.attempts = READY, message.attempts - 1
            message.events.append("released")
            return "released"
        message.events.append("nacked")
        self._fail(message, later=later, dead=dead)
        return "dead" if message.state == DEAD else "retrying"

    def lapse(self, message: Message) -> None:
        message.lease = None
        message.events.append("lapsed")
        self._fail(message, later=False, dead=False)

    def expire(self, message: Message) -> None:
        self._die(message)

    def _fail(self, message: Message, *, later: bool, dead: bool) -> None:
        if dead or message.attempts > message.max_retries:
            self._die(message)
        else:
            message.state, message.due = SCHEDULED if later else READY, self.now()

    def _die(self, message: Message) -> None:
        message.state = DEAD
        message.events.append("dead")

    def cancel(self, message: Message) -> tuple[int, str]:
        if message.state == LEASED:
            return 409, "leased"
        if not message.waits:
            return 404, "not_found"
        message.state = CANCELLED
        message.events.append("cancelled")
        return 200, "cancelled"

    def move(self, message: Message, priority: int | None, *, when: str | None) -> tuple[int, str]:
        """`when` is now, later, or None: the time stays."""
        if message.state == LEASED:
            return 409, "leased"
        if not message.waits:
            return 404, "not_found"
        message.events.append("moved")
        message.priority = message.priority if priority is None else priority
        if when:
            message.state, message.due = SCHEDULED if when == "later" else READY, self.now()
        return 200, message.state

    def replay(self, message: Message) -> int:
        if message.state != DEAD:
            return 0
        message.state, message.attempts, message.due = READY, 0, self.now()
        message.events.append("replayed")
        return 1

    def delete(self, message: Message) -> int:
        if message.state != DEAD:
            return 0
        message.state = DELETED
        return 1
