"""What happened and what is alive: events in one sentence each, heartbeats of processes. May import `core` only."""
