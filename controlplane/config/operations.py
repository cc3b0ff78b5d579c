"""The one list of modules that register operations; imported by the URL configuration."""

from controlplane.catalog import operations as catalog
from controlplane.endpoints import operations as endpoints
from controlplane.endpoints import tagging
from controlplane.metrics import operations as alarms
from controlplane.metrics import queries

MODULES = (catalog, endpoints, tagging, alarms, queries)
