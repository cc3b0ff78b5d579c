"""The `local` provider: an instance is a group of real processes on this host.

    <data dir>/local/lock                 held while a launch counts slots and starts a process
    <data dir>/local/capacity.json        slots by type, as the operator last set them
    <data dir>/local/instances/<id>/      one directory for each instance
        spec.json     what was asked for, written before anything is started
        alive.lock    held by the shim for as long as it lives: held = alive, whatever became of process ids
        state.json    what the shim last said: pending, running (port), exited (why)
        stop          present once the end was asked for
        log           the container's output, bounded

`shim` is the small process that owns one container, `processes` reads and signals, `runtimes` says how an image is run,
`provider` puts them together.
"""
