"""Orphans: instances at a provider that carry this control plane's name and that no endpoint has.

What the sweep of the workers found, what it did about it, and what that costs. May import `fleet` and everything below.
"""
