"""One machine: real PostgreSQL, real Valkey and an S3-compatible store from wheels, and all of Headrace's processes.

    supervisor    starts, watches, restarts and stops the processes, and adopts their orphans
    processes     what runs, in which order, and how each is known to be ready
    postgres, valkey, store    one engine each, as a foreground child
    nanio_files   what the store's server is: nanio, and what a file system asks of its keys
    small_objects what most of the store's puts take: small objects that share a sync
    engines       the three together, also for tests
    secrets, ports             what is made once and kept in the data directory

The packages that carry PostgreSQL and Valkey are used for their binaries alone: their own Python layers were found to
take a stale process id for a running server, to open the home directory to other users, and to leave a pipe unread.
May import `core`, and `auth.sigv4` for the store; knows the other parts by their command lines.
"""
