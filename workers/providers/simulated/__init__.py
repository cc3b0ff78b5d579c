"""The `simulated` provider: capacity, shortages and faults as settings, for CI and for rehearsal.

`world` is the stored state and its knobs, `storage` keeps it (SQLite: shared by all processes of a host, or in memory
under a virtual clock), `schedule` draws seeded shortages, `provider` gives the world the face of a provider. Nothing real
runs: an instance has an address only if the world has one to lend.
"""
