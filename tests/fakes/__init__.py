"""Stand-ins that tests share: a clock that is moved by hand. Everything else is the real thing or ships as product."""
