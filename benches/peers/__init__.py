"""The loaders that shardpack's is measured against, and the limits of the machine: each in its own process, with its own store of the same samples.

`registry` lists them, `stores` converts, `pictures` and `cubes` load, `limits` does the part that no loader can skip, `worker` runs one of them and times it, `environment`
installs what they need, `tree` counts processor time and memory of a process and its children.
"""
