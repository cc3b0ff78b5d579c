"""The fleet as facts: instances, launch attempts, capacity marks, and what the gateways report of them.

May import `core`, `observability`, `catalog` and `endpoints`. Deciding and doing live in `workers.fleet`."""
