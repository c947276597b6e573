"""What settings, quotas and roles may be. No framework: the data plane reads these too."""

STRATEGIES = ("exponential", "linear", "constant")
DURABILITIES = ("commit", "buffered")
VIEWER, OPERATOR, ADMIN, OWNER = "viewer", "operator", "admin", "owner"
ROLES = (VIEWER, OPERATOR, ADMIN)  # of a member; an owner also makes and deletes the namespace
RANKS = {role: rank for rank, role in enumerate((*ROLES, OWNER))}
MAX_QUOTA = 10**15
MAX_RATE = 1_000_000
