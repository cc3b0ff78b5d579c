"""The one composition point of the API process: settings, URLs, the WSGI callable."""
