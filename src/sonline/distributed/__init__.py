"""Training on more than one machine: one model per partition, merged in a fixed tree.

Shared by the engines:

- `shards`: the model of a partition with its figures, and how shards are merged;
- `partition`: training on one partition, given as arrays or a data frame;
- `rounds`: several passes, each from the merged model of the one before;
- `progress`: shows finished partitions;
- `checkpoints`: finished partitions on disk.

`sonline.distributed.dask` and `sonline.distributed.spark` run it on clusters.
"""
