"""The other loaders and the limits of the machine, each in its own process with its own store of the same samples.

`registry` lists them, `stores` converts, `pictures` and `cubes` load, `limits` does the work that no loader can skip,
`worker` times one of them, `environment` installs their packages, and `tree` measures CPU time and memory.
"""
