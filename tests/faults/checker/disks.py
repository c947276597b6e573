"""A disk of its own for a server, that can be made full: a tmpfs whose size is set to what it holds."""

import os
import shutil
import subprocess
from pathlib import Path

AMPLE = "6g"
LEFT = 64 * 1024  # bytes that a full disk still takes: less than a page of each of its tables


class Disk:
    """Mounting needs root, and a system that lets root mount: in many containers it does not."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    @staticmethod
    def why_not(folder: Path) -> str:
        """Empty where it works."""
        if os.geteuid() != 0:
            return "needs root, to mount a disk that can be full"
        probe = folder / "probe"
        probe.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "mqueue-probe", probe], capture_output=True)
        if mounted.returncode == 0:
            subprocess.run(["umount", probe], check=True)
        probe.rmdir()
        return "" if mounted.returncode == 0 else "this system lets nobody mount a disk that can be full"

    def mount(self, folder: Path) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={AMPLE},mode=0755", "mqueue-checker", folder], check=True)
        self._folder = folder

    def fill(self) -> None:
        assert self._folder
        self._resize(str(shutil.disk_usage(self._folder).used + LEFT))

    def clear(self) -> None:
        self._resize(AMPLE)

    def unmount(self) -> None:
        if self._folder:
            subprocess.run(["umount", "-l", self._folder], check=False)
            self._folder = None

    def _resize(self, size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", self._folder], check=True)  # type: ignore[list-item]
