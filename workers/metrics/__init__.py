"""Metrics and alarms as the scheduler tends them: alarms are evaluated, old buckets joined and deleted."""
