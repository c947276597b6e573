"""Write `.env` for docker compose, with random secrets; one that is there stays as it is. Run by `make env`."""

import os
import secrets
import sys
from pathlib import Path

TEXT = """\
# Read by docker compose. Keep it out of version control, and keep a copy: the database's password is in the data.
JWT_SECRET={jwt}
POSTGRES_PASSWORD={postgres}
REDIS_PASSWORD={redis}
# What clients connect to.
MQUEUE_PORT=8080
METRICS_PORT=2112
"""

path = Path(__file__).resolve().parent.parent / ".env"
try:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
except FileExistsError:
    sys.exit(f"{path} is there already; delete it first if you want new secrets")
with os.fdopen(descriptor, "w") as file:
    # Hex: these stand inside URLs.
    file.write(TEXT.format(jwt=secrets.token_hex(32), postgres=secrets.token_hex(24), redis=secrets.token_hex(24)))
print(f"wrote {path}; now: docker compose up --build")
