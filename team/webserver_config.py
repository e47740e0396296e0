"""The configuration of the web pages of Airflow's log-in (`[fab] config_file`), which its server reads.

By default their key is `[api] secret_key`, which each worker has, as the server signs with it what it asks for logs.
Who has that key could sign the cookie that remembers a log-in, of any person, and be given a token for it.

A change here violates the promise of the team set-up when a key that a worker has opens a log-in.
"""

import os

SECRET_KEY = os.environ["AIRFLOW_PEOPLE_KEY"]
