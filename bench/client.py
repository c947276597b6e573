"""An HTTP/1.1 client for load: one keep-alive connection, one request at a time, as little work as possible."""

import asyncio


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self._reader, self._writer, self._head = reader, writer, head

    @classmethod
    async def open(cls, port: int, token: str) -> "Connection":
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        head = f"HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n"
        return cls(reader, writer, head)

    async def post(self, path: str, body: bytes) -> bytes:
        self._writer.write(f"POST {path} {self._head}content-length: {len(body)}\r\n\r\n".encode() + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        answer = await self._reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{path}: {head.decode()}{answer[:500].decode()}")
        return answer

    def close(self) -> None:
        self._writer.close()
