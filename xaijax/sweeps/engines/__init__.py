"""Where the parts of a sweep run: one protocol, an engine for each kind of workers.

Reading order:

    choose      which engine `executor=` names
    slurm       shards: every driver answers its own parts
    processes   spawned local processes, one part at a time each
    futures     anything with `.submit`: executors, a Dask Client, Ray
    worker      what runs in a spawned process
    attempt     one try of a part, on workers of any kind
    protocol    `Engine`: what the driver asks of it
"""

from xaijax.sweeps.engines.choose import ray as ray
from xaijax.sweeps.engines.choose import shard as shard
from xaijax.sweeps.engines.choose import slurm as slurm
