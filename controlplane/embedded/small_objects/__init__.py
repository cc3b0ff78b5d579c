"""Small objects of the embedded store, kept at the pace of a queue: what most outputs are.

nanio syncs two files for each object, the object and what is known about it, one object after the other: the disk sets the
pace, and the kernel's work for a sync is dearer than all else. Here those that come together share one sync:

    put ---> in the log, synced with whatever came meanwhile ---> written as files ---> answered: kept
                                                                        |
             out of the log <--- all files synced at once, every few seconds
    start ---> what the log still holds is written as files again, and synced

So an answer means what it meant: the object outlives a killed process and a lost machine. What the disk holds is nanio's
own layout, and the log an ordinary SQLite database that is all but empty at rest.

    log        what was put and may not be on disk as a file yet
    keeper     puts that share a sync, in the order in which they came; the state machine is there
    batch      what one commit changes
    files      an object and what is known about it, as nanio lays them out
    storage    nanio's storage, with small objects kept so
    quick      the plainest of puts, answered before nanio's application is asked
"""
