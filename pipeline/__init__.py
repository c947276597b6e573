"""History on Spark. PySpark is large, so it is installed when it is first needed: see launch/install.py."""
