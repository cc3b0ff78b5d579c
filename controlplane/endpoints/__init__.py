"""Endpoints: what is wanted of each (the snapshot of its configuration, counts and weights) and the phase it is in.

May import `core`, `wire`, `observability` and `catalog`. Instances are none of its business: the workers write their
counts into `VariantPool.current_count`."""
