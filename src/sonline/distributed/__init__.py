"""Training on more than one machine: every partition by itself, then merged in a fixed tree.

What the engines share:

- `shards`: a trained partition, its figures, and how shards become one;
- `partition`: training of one partition out of arrays;
- `rounds`: several passes, the merged model sent out again;
- `progress`: finished partitions, shown;
- `checkpoints`: finished partitions on disk.

`sonline.distributed.dask` and `sonline.distributed.spark` run it on clusters.
"""
