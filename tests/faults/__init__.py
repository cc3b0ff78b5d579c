"""The fault storm: seeded operations and faults end to end, then calm, and a count of what was leaked, doubled or stuck."""
