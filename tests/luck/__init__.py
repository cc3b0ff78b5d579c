"""Runs of the tests under conditions that show which of them pass by luck; none belongs to the ordinary run.

any_order    rows that no statement orders, and ties of those that one does, come in any order
stalls       the machine stands still again and again
"""
