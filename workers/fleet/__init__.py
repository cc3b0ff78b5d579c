"""The fleet controller: `observe` gathers what is known of one endpoint, `plan` decides, `act` does.

`view` holds the frozen picture the planner is given, `memory` what refusals teach all endpoints, `capacity` the pure
rules of walking pools, `scale_in` the pure order in which instances go.
"""
