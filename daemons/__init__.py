"""The processes beside the API."""
