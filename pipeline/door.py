"""The service's own door: HTTP, with a token, and with the patience that its answers ask for. Quotas hold."""

import http.client
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mqueue.core import tokens
from pipeline.errors import PipelineError

TOKEN_S = 3600
PATIENCE_S = 600.0  # with a service that says "later", or nothing
TIMEOUT_S = 60.0
LATER = (429, 503)


@dataclass
class Door:
    url: str
    secret: str
    namespace: str
    subject: str
    _connection: http.client.HTTPConnection | None = None
    _token: tuple[float, str] = field(default=(0.0, ""))

    def another(self) -> "Door":
        """With a connection of its own."""
        return Door(self.url, self.secret, self.namespace, self.subject)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def enqueue(self, messages: list[bytes]) -> int:
        """Until each is committed; how many were there already."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            status, headers, body = self._post(b"[" + b",".join(messages) + b"]", deadline)
            if status in (200, 202):
                return int(headers.get("mqueue-duplicates", "0"))
            if status == 413 and len(messages) > 1:  # more than a quota lets through at once
                middle = len(messages) // 2
                return self.enqueue(messages[:middle]) + self.enqueue(messages[middle:])
            if status not in LATER or time.monotonic() > deadline:
                raise PipelineError(f"The service answers {status}: {body[:500]}")
            time.sleep(_wait(headers))

    def _post(self, body: bytes, deadline: float) -> tuple[int, dict[str, str], str]:
        while True:
            try:
                connection = self._connect()
                connection.request("POST", "/enqueue", body, self._headers())
                answer = connection.getresponse()
                text = answer.read().decode(errors="replace")
                return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if time.monotonic() > deadline:
                    raise PipelineError(f"{self.url} cannot be reached: {error}") from error
                time.sleep(0.5)

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            parts = urlsplit(self.url)
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
        return self._connection

    def _headers(self) -> dict[str, str]:
        made, token = self._token
        if time.monotonic() - made > TOKEN_S / 2 or not token:
            token = tokens.make(self.secret, self.subject, [self.namespace], ["enqueue"], TOKEN_S)
            self._token = (time.monotonic(), token)
        return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def _wait(headers: dict[str, str]) -> float:
    if "retry-after-ms" in headers:
        return int(headers["retry-after-ms"]) / 1000
    return float(headers.get("retry-after", "1"))
