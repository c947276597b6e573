"""The hourly roll-up of everything, again and again in one Spark session; the seconds of each, as JSON.

python -m bench.pipeline.warm TIMES
"""

import json
import os
import sys
import time


def _nothing(_: str) -> None:
    """Is said."""


def main(times: int) -> list[float]:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqueue.settings")
    import django

    django.setup()
    from mqueue.core.conf import conf
    from pipeline.spark import Sessions
    from pipeline.usage import usage

    taken = []
    with Sessions("mqueue usage") as sessions:
        for _ in range(times):
            began = time.monotonic()
            usage(conf(), sessions, _nothing, everything=True)
            taken.append(time.monotonic() - began)
    return taken


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
