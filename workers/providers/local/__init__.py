"""The `local` provider: an instance is a group of real processes on this host.

    <data dir>/local/lock                 held by whoever changes what follows: launches, settling, capacity
    <data dir>/local/capacity.json        slots by type, as the operator last set them
    <data dir>/local/instances/<id>/      one directory for each instance
        spec.json     what was asked for, written before anything is started
        alive.lock    held by the shim for as long as it lives: held = alive, whatever became of process ids
        state.json    what the shim last said: pending, running (port), exited (why)
        stop          present once the end was asked for
        log, log.1    the container's output, bounded
        shim.log      what the shim itself had to complain of
        model/        the model's data while the instance lives

A crash between any two steps leaves something that a repeated launch, a find or a terminate can finish: a directory
whose lock nobody holds is not alive, and one whose lock is held is an instance, whatever its launcher got to write down.

`shim` is the small process that owns one container, `start` starts it, `processes` reads and signals, `capacity` counts
slots, `runtimes` says how an image is run, `model_data` fetches, `provider` puts them together, `stop` ends everything.

Containers run as the user that runs Headrace: this provider is for trusted images, it is no sandbox. A slot does not
own GPU ids yet.
"""
