"""The simulator: weeks of weather over a whole fleet in seconds, decided by the product's own planner.

`manage.py simulate SCENARIO.toml` walks a virtual clock from event to event; nothing of a database, a network or a real
clock is touched, and the same scenario and seed give the same report, byte for byte.

    scenario                            what a file may say, frozen; toml_table and parse read it and name every fault
    weather, demand, world, lives       what is not ours: capacity and outages, users, slots, the fates of instances
    memory, first_ask, moves, act,      what the product keeps in its database, restated for facts in memory; the tests
    launching                           (`test_likeness`) play both side by side
    fleet, counter                      the facts of one endpoint, the offerings it sees, and the view that is planned from
    timeline, calendar, engine          the heap of events, when a plan can next come out differently, the loop
    ledger, report, gate                what it adds up to, in figures and as bounds that a CI run may set
    picture, series, svg                the same as a drawing

Every decision is `workers.fleet.plan.plan`'s; the lengths of marks and back-offs are `workers.fleet.capacity`'s and which
offering is next is `controlplane.core.offerings`'. What is left out: a worker's own time (there are always enough of them;
a launch call does take its `call_seconds`, during which its endpoint is busy as under a claim), deployments, quotas, and
pings. In the product a serving instance is pinged every 5 s; here a healthy one is left alone and its endpoint is looked at
only when something can have changed, so that the cost follows what happens and not how long nothing does. What a look
every 5 s sees up to 5 s late is seen NOTICE_SECONDS late here.
"""
