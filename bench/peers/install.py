"""A virtual environment for the peers, made from their own pinned requirements: they share nothing with the service."""

import hashlib
import subprocess
import sys
from collections.abc import Callable

from bench.service import ServiceError
from mqueue.core.conf import ROOT

REQUIREMENTS = ROOT / "bench" / "requirements-peers.txt"
VENV = ROOT / ".bench" / "venv"
STAMP = VENV / ".installed"


class InstallError(ServiceError):
    """The peers cannot be installed; the installer's messages are above."""


def python(say: Callable[[str], None]) -> str:
    """Its interpreter; installed first where it is missing or out of date."""
    interpreter, wanted = VENV / "bin" / "python", hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if STAMP.exists() and STAMP.read_text() == wanted and interpreter.exists():
        return str(interpreter)
    say(f"installing {REQUIREMENTS.name}")
    subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
    pins = ["--require-hashes", "-r", str(REQUIREMENTS)]
    with_uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(interpreter), *pins]
    with_pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins]
    for command in (with_uv, with_pip):  # uv is quicker, and may not know an index that only pip.conf names
        if subprocess.run(command).returncode == 0:
            STAMP.write_text(wanted)
            return str(interpreter)
    raise InstallError(f"{REQUIREMENTS.name} could not be installed")


if __name__ == "__main__":
    python(lambda text: print(f"bench: {text}", file=sys.stderr))
