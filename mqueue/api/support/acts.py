"""Acts on dead letters: those that were chosen, at once; all that a search means, by a job. Each asks once more."""

from collections import defaultdict

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from msgspec import UNSET, Struct, UnsetType

from mqueue.api.bridge import bridge
from mqueue.api.plane import Plane
from mqueue.api.support.base import SupportView
from mqueue.api.support.letters import as_query, count, filter_of, letter_number
from mqueue.core import names
from mqueue.core.errors import Invalid, MqueueError
from mqueue.core.messages import DeadChoice
from mqueue.core.searches import DeadFilter
from mqueue.engine.dead import PORTION
from tenants import access, audit, jobs
from tenants.rules import DELETE, OPERATOR, REPLAY

MOST_CHOSEN = 1000
WORDS = {REPLAY: ("Requeue", "requeued"), DELETE: ("Delete", "deleted")}


class Acted(Struct):
    """As the audit log keeps it. It is on record before it begins, and how many are known to be done afterwards: where
    that is missing, the process did not live to say it."""

    chosen: dict[str, list[int]]
    done: int | UnsetType = UNSET
    error: str | UnsetType = UNSET


class ActPage(SupportView):
    """What was chosen in the list, or one letter on its page."""

    roles = {"POST": OPERATOR}
    template, tab = "act.html", "dlq"

    def post(self, request: HttpRequest, namespace: str) -> HttpResponse:
        home = access.namespace(self.asker, namespace, OPERATOR)
        verb, chosen = verb_of(request), chosen_in(request)
        if "confirmed" not in request.POST:
            title = f"{WORDS[verb][0]} {sum(map(len, chosen.values())):,} dead letters?"
            return self.page(title, verb=verb, word=WORDS[verb][0], chosen=chosen)
        acted = self._on_record(home.name, verb, Acted(chosen))
        self.say(f"{acted.done:,} dead letters {WORDS[verb][1]}.")
        return redirect("support:letters", home.name)

    def _on_record(self, namespace: str, verb: str, acted: Acted) -> Acted:
        ids = [number for numbers in acted.chosen.values() for number in numbers]
        target = str(ids[0]) if len(ids) == 1 else f"{len(ids)} dead letters"
        with transaction.atomic():
            line = audit.note(self.asker, f"dead.{verb}", namespace, target, after=acted)
        try:
            bridge().call(lambda plane: act(plane, self.asker.name, namespace, verb, acted))
        except Exception as error:
            acted.error = f"{error.code}: {error.detail}" if isinstance(error, MqueueError) else type(error).__name__
            raise
        finally:
            audit.end(line, acted)
        return acted


class ActOnAllPage(SupportView):
    """All that a search means."""

    roles = {"GET": OPERATOR, "POST": OPERATOR}
    template, tab = "act_on_all.html", "dlq"

    def get(self, request: HttpRequest, namespace: str) -> HttpResponse:
        home = access.namespace(self.asker, namespace, OPERATOR)
        verb, wanted = verb_of(request), filter_of(request.GET)
        return self.page(
            f"{WORDS[verb][0]} all dead letters that fit?",
            verb=verb,
            word=WORDS[verb][0],
            conditions=said(wanted),
            wanted={name: value for name, value in request.GET.items() if name in DeadFilter.__struct_fields__},
            query=as_query(wanted),
            matching=count(home.name, wanted),
        )

    def post(self, request: HttpRequest, namespace: str) -> HttpResponse:
        with audit.changing():
            home = access.namespace(self.asker, namespace, OPERATOR)
            made = jobs.make_job(
                self.asker,
                home,
                verb_of(request),
                filter=filter_of(request.POST),
                is_dry_run="dry_run" in request.POST,
                rate_per_s=whole(request, "rate_per_s", 100_000),
                most=whole(request, "max", 10**15),
            )
        return redirect("support:job", home.name, made.pk)


async def act(plane: Plane, who: str, namespace: str, verb: str, acted: Acted) -> None:
    """A transaction at a time: of one that fails, those before it are counted."""
    dead = plane.engine.dead
    acted.done = 0
    for topic, ids in acted.chosen.items():
        for start in range(0, len(ids), PORTION):
            choice = DeadChoice(namespace, topic, ids=ids[start : start + PORTION])
            acted.done += await (dead.replay(who, choice) if verb == REPLAY else dead.delete(who, choice))


def verb_of(request: HttpRequest) -> str:
    verb = request.POST.get("verb") or request.GET.get("verb", "")
    if verb not in WORDS:
        raise Invalid("One of replay and delete is needed", errors=[])
    return verb


def chosen_in(request: HttpRequest) -> dict[str, list[int]]:
    """Each is `id:topic`."""
    found: dict[str, list[int]] = defaultdict(list)
    chosen = request.POST.getlist("chosen")
    for one in chosen:
        text, _, topic = one.partition(":")
        number = letter_number(text)
        if number is None or not names.is_topic(topic):
            raise Invalid("That is no dead letter", errors=[])
        found[topic].append(number)
    if not 1 <= len(chosen) <= MOST_CHOSEN:
        raise Invalid(f"Choose 1 to {MOST_CHOSEN} dead letters", errors=[])
    return dict(found)


def said(wanted: DeadFilter) -> list[tuple[str, str]]:
    """The conditions of a filter, in words."""
    found = [(name, getattr(wanted, name)) for name in DeadFilter.__struct_fields__]
    return [(name.replace("_", " "), str(value)) for name, value in found if value is not None]


def whole(request: HttpRequest, name: str, most: int) -> int | None:
    """A number from a form; nothing is none."""
    text = request.POST.get(name, "").strip()
    if not text:
        return None
    number = names.number(text)
    if number is None or not 1 <= number <= most:
        raise Invalid(f"{name} has to be a whole number from 1 to {most}", errors=[])
    return number
