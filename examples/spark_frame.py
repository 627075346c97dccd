"""
Spark: a classifier for a data frame
====================================

``SONClassifier`` for Spark is a ``pyspark.ml`` estimator. Each partition is trained by one task,
then the models are merged. Spark needs Java, so this example is run by the tests and not when the
documentation is built.
"""

# sphinx_gallery_thumbnail_path = 'distributed/shards.png'

# %%
# A local session. On a cluster, ``sonline[spark]`` must be installed for driver and executors.
import os
import sys

import numpy as np
from pyspark.sql import SparkSession

from sonline.distributed.spark import SONClassifier

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = SparkSession.builder.master("local[2]").getOrCreate()

# %%
# A frame with numbers and text. Names and texts become features, as everywhere in sonline.
rng = np.random.default_rng(0)
rows = []
for age in rng.uniform(18, 80, 2000).tolist():
    city = str(rng.choice(["Basel", "Graz", "Linz"]))
    rows.append((age, city, float(age / 20 + 2 * (city == "Graz") + rng.logistic() > 3)))
frame = spark.createDataFrame(rows, ["age", "city", "label"]).repartition(2)

# %%
model = SONClassifier(labelCol="label", featureCols=["age", "city"]).fit(frame)
predictions = model.transform(frame)
predictions.select("label", "prediction", "probability").show(3)
accuracy = predictions.where("label = prediction").count() / frame.count()
print(f"accuracy {accuracy:.3f}")
