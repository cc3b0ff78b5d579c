"""Where calls go: the frozen table, the balancer that chooses from it, the HTTP client that carries the call.

    policies        the variant, by weight; calls under way
    balancer        the instance, by the variant's strategy  <-- pool (weights, slow start), health (ejection)
      rendezvous    PREFIX_AWARE  <-- prefix, chat_text
      cache_aware   KV_AWARE      <-- blocks (what was sent where), engine_load (what engines say of themselves)

All of these are pure, and shared by the gateway and the workers like `table` and `upstream`, which never import Django
either; `models` and `publish` are the writing side.
"""
