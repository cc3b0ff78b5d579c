"""The whole of Headrace as processes, started by `manage.py up`, spoken to by unmodified clients."""
