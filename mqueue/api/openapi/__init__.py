"""Both planes in the OpenAPI document, from the very types that decode their requests and make their answers.

drf-spectacular would describe views by their serializers. Ours have none, so they are left out there, and two hooks add
their paths.
"""

from mqueue.api.openapi.document import add_control_plane, add_data_plane
from mqueue.api.openapi.examples import EXAMPLE, LEASED

__all__ = ["EXAMPLE", "LEASED", "add_control_plane", "add_data_plane"]
