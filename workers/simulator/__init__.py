"""The simulator: weeks of weather over a whole fleet in seconds, decided by the product's own planner.

`manage.py simulate SCENARIO.toml` walks a virtual clock from event to event; nothing of a database, a network or a real
clock is touched, and the same scenario and seed give the same report, byte for byte.

    scenario  what a file may say (frozen)        toml_table, parse   reading it; every fault is named
    weather   capacity and outages over time      demand              wanted counts over time
    world     slots and the fates of instances    memory              the marks, by the product's rules
    fleet     the facts of one endpoint           act                 what becomes of a plan's actions
    calendar  when a plan can next come out differently               engine   the loop over all of it
    ledger    what it adds up to                  report, gate, picture        the same as figures, verdict and drawing

What is modelled and what is not. Every decision is `workers.fleet.plan.plan`'s; the marks, their lengths and the back-offs
come from `workers.fleet.capacity`. A launch call takes `call_seconds`, during which its endpoint is busy, as under a
claim. A worker's own time is not counted: there are always enough of them. In the product a serving instance is pinged
every 5 s; here a healthy one is left alone and its endpoint is looked at only when something can have changed, so that
the cost follows events and not time. What a look every 5 s would see 0 to 5 s late is seen NOTICE_SECONDS late here.
"""
