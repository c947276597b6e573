"""The data plane in the OpenAPI document, from the very types that decode its requests and make its answers.

drf-spectacular describes the control plane's views. Those of the data plane know nothing of what they carry, so they
are left out there, and a hook adds their paths.
"""

from mqueue.api.openapi.document import add_data_plane
from mqueue.api.openapi.examples import EXAMPLE, LEASED

__all__ = ["EXAMPLE", "LEASED", "add_data_plane"]
