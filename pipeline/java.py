"""The Java that Spark runs on: JAVA_HOME, or the one on the PATH, 17 or newer."""

import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST = 17


class JavaMissing(Exception):
    """Spark needs Java 17 or newer, and there is none; the message says what to do."""


def find_java() -> Path:
    """The `java` program."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found:
        raise JavaMissing(
            f"Spark needs Java {OLDEST} or newer: install it, or set JAVA_HOME (Debian: default-jre-headless)"
        )
    version = java_version(found)
    if version is None or version < OLDEST:
        raise JavaMissing(f"{found} is Java {version or 'of no version that it tells'}; Spark needs {OLDEST} or newer")
    return Path(found)


def java_version(program: str) -> int | None:
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(match.group(1)) if match else None
