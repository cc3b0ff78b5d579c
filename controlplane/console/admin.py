"""What Django's admin lists: the records, read-only, and the operators. Registered by being imported."""

from controlplane.console import operators, records

REGISTERED = (operators, records)
