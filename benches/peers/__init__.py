"""Other loaders, and measurements of the machine's limits. Each runs in its own process, and reads the same samples
from files in its own format.

`registry` lists the sides, `stores` converts the samples for them, `pictures` and `cubes` contain the loaders, `limits`
does the work that no loader can skip, `worker` times one side, `environment` installs the packages, and `tree` measures
CPU time and memory.
"""
