"""Sweeps mend what a crash left behind: instances nobody knows, rows nobody needs."""
