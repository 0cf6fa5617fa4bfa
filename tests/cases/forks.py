"""A process that forks before and after its first use of JAX; run by test_forks.py.

A line for each question that a child was asked: its name, and what came of it. A child that hangs
is killed after 20 seconds, and says so.
"""

import os
import signal
import warnings

import numpy as np

import xaijax as xj

warnings.simplefilter("ignore")  # a fork of a process with threads is what this is about
X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)


def f(rows):
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


def in_child(name, ask):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            ask()
            said = "answered"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said[:200].encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    print(f"{name} | {said or f'ended by signal {os.WTERMSIG(status)}'}", flush=True)


def main():
    host, traced = xj.as_model(f, backend="host"), xj.as_model(f)
    in_child("before", lambda: xj.Explainer(host, X[:4])(X))
    in_child("predict before", lambda: traced.predict(X))
    explainers = {
        "host": xj.Explainer(host, X[:4]),
        "traced": xj.Explainer(traced, X[:4]),
        "federated": xj.FederatedExplainer(traced, X[:4], {"guest": [0]}),
    }
    labels = xj.as_model(f, backend="host", threshold=0.0)
    qii, anchors = xj.QII(labels, X), xj.AnchorExplainer(labels, X)
    saved = explainers["host"](X[:2])
    aec, gradients = xj.AEC(), xj.GradientExplainer(traced, X[:4])
    for name, explainer in explainers.items():
        in_child(name, lambda explainer=explainer: explainer(X))
    in_child("new", lambda: xj.Explainer(host, X[:4]))
    in_child("QII", qii.unary)
    in_child("Anchors", lambda: anchors.explain(X[:1]))
    in_child("predict", lambda: traced.predict(X))
    in_child("as_jax", lambda: xj.as_jax(host))
    in_child("shapley_values", lambda: xj.shapley_values(f, X, X[:4]))
    in_child("gradients", lambda: gradients(X))
    in_child("AEC", lambda: aec.fit(X, X[:, 0] + X[:, 1]))
    in_child("predict on the host", lambda: host.predict(X))
    in_child("results", lambda: (saved.to_dataframe(), saved[0], repr(saved)))
    explainers["traced"](X)
    print("parent | answered")


main()
