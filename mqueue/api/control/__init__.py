"""The control plane: namespaces and what belongs to them, by REST, for tokens, API keys and staff with a session."""
