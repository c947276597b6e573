"""A real browser: Chromium, by its DevTools protocol over two pipes. No driver and no package stand in between."""

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_S = 30.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root; it opens our own pages alone
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
    "--ignore-certificate-errors",
    "about:blank",
)
Json = dict[str, Any]


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of it."""

    def __init__(self, program: str, profile: str) -> None:
        self._numbers = itertools.count(1)
        self._buffer = b""
        self.events: list[Json] = []
        commands, self._to = _pipe()
        self._from, answers = _pipe()
        nothing = (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)
        actions = [(os.POSIX_SPAWN_DUP2, commands, 3), (os.POSIX_SPAWN_DUP2, answers, 4), nothing]
        command = [program, f"--user-data-dir={profile}", *FLAGS]
        self._pid = os.posix_spawn(program, command, dict(os.environ), file_actions=actions, setsid=True)
        os.close(commands)
        os.close(answers)
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.tell(f"{domain}.enable")

    def close(self) -> None:
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._to)
        os.close(self._from)

    def ask(self, method: str, session: str = "", **parameters: Any) -> Json:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                found: Json = answer["result"]
                return found
            self.events.append(answer)

    def tell(self, method: str, **parameters: Any) -> Json:
        """To the page."""
        return self.ask(method, self._session, **parameters)

    def size(self, width: int, height: int) -> None:
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def go(self, url: str) -> None:
        self._loading(lambda: self.tell("Page.navigate", url=url))

    def click(self, selector: str) -> None:
        """What leads to another page."""
        self._loading(lambda: self.run(f"document.querySelector({json.dumps(selector)}).click()"))

    def fill(self, selector: str, text: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(text)}")

    def run(self, script: str) -> Any:
        answer = self.tell("Runtime.evaluate", expression=script, returnByValue=True, userGesture=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def text(self, selector: str = "body") -> str:
        """Once it is there: a page that renews itself is empty for a moment."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.run(f"document.querySelector({json.dumps(selector)})?.innerText")) is None:
            assert time.monotonic() < deadline, f"there is no {selector}"
            time.sleep(0.05)
        return str(found)

    def cookie(self, url: str, name: str, value: str) -> None:
        self.tell("Network.setCookie", url=url, name=name, value=value)

    def picture(self, path: Path, width: int, height: int) -> None:
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.tell("Page.captureScreenshot", format="png", clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def said(self, *methods: str) -> list[Json]:
        return [event for event in self.events if event.get("method") in methods]

    def _loading(self, act: Any) -> None:
        before = len(self.said("Page.loadEventFired"))
        act()
        deadline = time.monotonic() + PATIENCE_S
        while len(self.said("Page.loadEventFired")) <= before:
            if time.monotonic() > deadline:
                raise AssertionError("the page does not load")
            self.events.append(self._next())
        self.run("document.fonts.ready.then(() => true)")

    def _next(self) -> Json:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], PATIENCE_S)
            part = os.read(self._from, 1 << 20) if ready else b""
            if not part:
                raise AssertionError("the browser says nothing")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: Json = json.loads(message)
        return found


@contextmanager
def chromium(program: str) -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(prefix="mq-browser-", ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            yield browser
        finally:
            browser.close()


def _pipe() -> tuple[int, int]:
    """Numbers above those that the browser wants its own under."""
    low = os.pipe()
    high = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in low]
    for one in low:
        os.close(one)
    return high[0], high[1]
