"""An HTTP relay in front of the service: it stops a request at a moment of one's choice, so that its sender can be
killed right there."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

import httpx

Moment = Literal["asked", "answered"]  # before the service hears of it; when it has answered and nobody knows


class Relay:
    def __init__(self, url: str) -> None:
        self._target, self._seen, self._lock = url, 0, threading.Lock()
        self._stop_at: tuple[int, Moment] | None = None
        self.stopped, self._go_on = threading.Event(), threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._go_on.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def stop_at(self, number: int, moment: Moment) -> None:
        """The request of this number from now on; `stopped` tells when it is there."""
        self._go_on.set()  # whoever was stopped before
        self.stopped, self._go_on = threading.Event(), threading.Event()
        with self._lock:
            self._seen, self._stop_at = 0, (number, moment)

    def _take_number(self) -> int:
        with self._lock:
            self._seen += 1
            return self._seen

    def _is_stopped(self, number: int, moment: Moment) -> bool:
        if self._stop_at != (number, moment):
            return False
        go_on = self._go_on
        self.stopped.set()
        go_on.wait()
        return True

    def _forward(self, path: str, headers: dict[str, str], body: bytes) -> httpx.Response | None:
        number = self._take_number()
        if self._is_stopped(number, "asked"):
            return None
        answer = httpx.post(self._target + path, headers=headers, content=body, timeout=60)
        return None if self._is_stopped(number, "answered") else answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                kept = {name: self.headers[name] for name in ("Authorization", "Content-Type")}
                answer = relay._forward(self.path, kept, body)
                if answer is None:
                    self.close_connection = True
                    return
                self.send_response(answer.status_code)
                for name in ("Content-Type", "Mqueue-Duplicates", "Retry-After", "Retry-After-Ms"):
                    if name in answer.headers:
                        self.send_header(name, answer.headers[name])
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            def log_message(self, *_: Any) -> None:
                """Nobody reads it."""

        return Handler
