"""Turn pyproject.toml into the hashed requirements files, for every Python and platform at once: `make lock`."""

import subprocess
import sys
from pathlib import Path

from install import FILES, OLDEST, ROOT, dotted  # run as a script, beside install.py

UV = Path(sys.prefix) / "bin" / "uv"
WHAT = {
    "base": ["pyproject.toml"],
    "dev": ["pyproject.toml", "--group", "dev", "-c", FILES["base"]],
    "pipeline": ["--group", "pipeline", "-c", FILES["base"]],
    "bootstrap": ["--group", "bootstrap"],
    "peers": ["--group", "peers"],
}
TARGETS = FILES | {"peers": "bench/requirements-peers.txt"}  # not of .venv: `make bench-peers` installs them

for group, sources in WHAT.items():
    command = [UV, "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-header"]
    command += ["--python-version", dotted(OLDEST), *sources, "--output-file", TARGETS[group], *sys.argv[1:]]
    subprocess.run(command, check=True, cwd=ROOT)
    print(f"wrote {TARGETS[group]}")
