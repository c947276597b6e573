"""The checker: a service of its own under load and faults, a record of every call, and a judge who reads it afterwards.

    python -m tests.faults.checker --minutes 30 --seed 1

docs/reliability.md says what is promised and how to read what is printed.
"""
