"""The one shape of a controller: claim, observe, plan, act, record, release.

`lease` owns the claim, `run` the order of the steps. Work happens outside any transaction; whatever is written is
guarded by the claim's token, and zero rows means that somebody else took over: throw the result away.
"""
