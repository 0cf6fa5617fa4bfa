"""Sweeps: many rows explained part by part, in a directory that is never lost.

A part is a range of rows and the file of their explanation. A worker gets a recipe of the explainer
and a range, and reads the rows itself. Files, not messages, show which parts are done.

Reading order:

    operators   `batches`: an explainer for the batches of Spark, Ray Data, Dask, pandas, polars
    sweep       `sweep`: arguments, the question, parts that are missing, the driver
    driver      submits parts, collects receipts, submits lost parts again
    engines/    where parts run: here, processes, a Dask Client, Ray, other executors, shards
    run         `Run` and `open_run`: what a directory holds
    exports     a run as a Parquet file or a zarr group
    task        one part, run anywhere
    question    the question as JSON, with which a later call must agree to resume
    inputs      the rows, wherever they are
    directory   the files of a run, written whole or not at all; one driver at a time
    parquet     rows of Parquet files, by row groups
"""
