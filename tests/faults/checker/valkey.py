"""The Redis of a run."""

import shutil
import socket
import subprocess
from pathlib import Path

from launch import embedded
from tests.faults.checker.server import Server


class Valkey(Server):
    @property
    def address(self) -> Path:
        return self.placed.sockets / "valkey.sock"

    def command(self) -> list[str]:
        return embedded.valkey_command(self.placed, self.account)

    def answers(self) -> bool:
        return self.tell("PING") == b"+PONG"

    def tell(self, command: str) -> bytes:
        """One command and the first line of its answer."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(5)
            try:
                line.connect(str(self.address))
                line.sendall(f"{command}\r\n".encode())
                return line.recv(4096).split(b"\r\n")[0]
            except OSError:
                return b""

    @property
    def files(self) -> Path:
        return self.placed.state / "valkey" / "appendonlydir"

    def keep_a_copy(self) -> None:
        self.forget_copy()
        subprocess.run(["cp", "-a", str(self.files), str(self.files.with_suffix(".old"))], check=True)

    def go_back_to_the_copy(self) -> None:
        """While it is down."""
        shutil.rmtree(self.files)
        self.files.with_suffix(".old").rename(self.files)

    def forget_copy(self) -> None:
        shutil.rmtree(self.files.with_suffix(".old"), ignore_errors=True)
