"""What a page of Headrace may load and run: nothing from another host, and no script that was written into it."""


def policy(**more: str) -> str:
    """The Content-Security-Policy of a page; `more` names sources by directive, such as script_src="'self'"."""
    directives = {
        "default-src": "'self'",
        **{name.replace("_", "-"): sources for name, sources in more.items()},
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data:",
        "object-src": "'none'",
        "base-uri": "'self'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {sources}" for name, sources in directives.items())
