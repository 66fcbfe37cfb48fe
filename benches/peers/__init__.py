"""Other loaders, and the limits of the machine. Each runs in its own process and reads the same samples from its own
store.

`registry` lists the sides, `stores` converts the samples for them, `pictures` and `cubes` contain the loaders, `limits`
does the work that no loader can skip, `worker` times one side, `environment` installs the packages, and `tree` measures
CPU time and memory.
"""
