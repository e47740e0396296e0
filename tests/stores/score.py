"""`python -I score.py TRACKING_URI MODEL_URI < rows.json`: the scores that a registered model gives raw rows, as JSON.

A process of its own, isolated (-I) and in an empty folder: a model registered at ff9b446 brings a top-level package
`tasks`, which must be neither the checkout's `tasks` nor another version's. It knows MLflow alone, as a service would.
"""

import json
import sys

import mlflow
import pandas as pd
from mlflow import pyfunc

tracking_uri, model_uri = sys.argv[1:]
rows = pd.DataFrame(json.load(sys.stdin))
mlflow.set_tracking_uri(tracking_uri)
scores = pyfunc.load_model(model_uri).predict(rows)
json.dump(scores.tolist(), sys.stdout)
