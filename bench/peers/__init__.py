"""Other queues on the same servers, each at its best by its own documentation.

`suite` is the driver's part. The others run in a virtual environment of their own, which knows nothing of this project.
"""
