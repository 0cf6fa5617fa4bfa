"""Runs the parts of a sweep in this process, or by a `concurrent.futures.Executor` or the like.

Reading order:

    choose      which engine `executor=` names; the engine in this process; shards, SLURM arrays
    processes   spawned local processes, one part at a time each
    futures     `Futures`: anything that submits and returns futures, as concurrent.futures does
    worker      one try of a part, on workers of any kind; spawned processes
"""

from xaijax.sweeps.engines.choose import ray as ray
from xaijax.sweeps.engines.choose import shard as shard
from xaijax.sweeps.engines.choose import slurm as slurm
