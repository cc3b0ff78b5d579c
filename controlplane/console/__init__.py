"""The operators' console, on Django's admin. Reads through selectors, changes through services, saves nothing itself."""
