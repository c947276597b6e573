import argparse
import secrets
import sys
from pathlib import Path

from tests.faults.checker.faults import FAULTS
from tests.faults.checker.run import Options, run
from tests.faults.checker.verdict import Verdict


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.checker", description="Break it, and see what it keeps."
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long faults are injected (5)")
    parser.add_argument(
        "--seed", default=secrets.token_hex(3), help="what decides who does what, and which fault comes when"
    )
    parser.add_argument(
        "--faults", default=",".join(FAULTS), help="some of them, by commas; 'none' for peace; all if not said"
    )
    parser.add_argument("--list", action="store_true", help="list the faults")
    parser.add_argument("--rate", type=float, default=150.0, help="messages a second, about (150)")
    parser.add_argument("--pace", type=float, default=1.0, help="0.3: faults and pauses take a third of their time")
    parser.add_argument("--once", action="store_true", help="each fault once, and then stop")
    parser.add_argument("--keep", action="store_true", help="keep the records of a good run, too")
    parser.add_argument("--judge", type=Path, metavar="FOLDER", help="judge records that were kept")
    chosen = parser.parse_args()
    if chosen.list:
        print("\n".join(f"{fault.name:26} {fault.what}" for fault in FAULTS.values()))
        return 0
    if chosen.judge:
        verdict = Verdict(chosen.judge)
        print("\n".join(verdict.lines()))
        return 0 if verdict.is_good else 1
    names = [] if chosen.faults == "none" else chosen.faults.split(",")
    if unknown := set(names) - FAULTS.keys():
        parser.error(f"there is no fault {', '.join(sorted(unknown))}: see --list")
    again = f"make chaos MINUTES={chosen.minutes:g} SEED={chosen.seed}"
    print(
        f"seed {chosen.seed}; again: {again} (the faults come alike; threads and networks take their own turns)",
        flush=True,
    )
    options = Options(
        seconds=chosen.minutes * 60,
        seed=chosen.seed,
        faults=names,
        pace=chosen.pace,
        rate=chosen.rate,
        once=chosen.once,
        keep=chosen.keep,
    )
    return 0 if run(options) else 1


if __name__ == "__main__":
    sys.exit(main())
