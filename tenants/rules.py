"""What settings, quotas and roles may be. No framework: the data plane reads these too."""

STRATEGIES = ("exponential", "linear", "constant")
DURABILITIES = ("commit", "buffered")
VIEWER, OPERATOR, ADMIN, OWNER = "viewer", "operator", "admin", "owner"
ROLES = (VIEWER, OPERATOR, ADMIN)  # of a member; an owner also makes and deletes the namespace
ADMIN_SCOPE, DLQ_SCOPE = "admin", "dlq"  # what a token needs; the first suffices where the second does
RANKS = {role: rank for rank, role in enumerate((*ROLES, OWNER))}

# Of a job: what it does, and where it is.
REPLAY, DELETE, PURGE = "replay", "delete", "purge"
JOB_KINDS = (REPLAY, DELETE, PURGE)
QUEUED, RUNNING, DONE, FAILED, CANCELLED = "queued", "running", "done", "failed", "cancelled"
LIVE = (QUEUED, RUNNING)
JOB_STATES = (*LIVE, DONE, FAILED, CANCELLED)

# The least and the most.
VISIBILITY_MS = (1_000, 43_200_000)
RETRIES = (0, 1000)
RETRY_MS = (0, 90 * 86_400_000)
RETENTION_DAYS = (2, 3650)  # at least the dedupe window, and a day
RATE_CAPACITY = (1, 1_000_000)
RATE_REFILL = (0.001, 1_000_000)
QUOTA = (1, 10**15)
WEIGHT = (1, 100)
