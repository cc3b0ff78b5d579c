"""How the console writes times: as the logs and the API do, in UTC. Django looks for a module of each language here."""
