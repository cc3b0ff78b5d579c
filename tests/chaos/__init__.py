"""Asynchronous requests while workers, broker and database are killed: none lost, none doubled. `python -m tests.chaos`."""
