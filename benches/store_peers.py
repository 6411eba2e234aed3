"""Measures LangChain's maximal_marginal_relevance on the candidates of `make bench-store`; scripts/bench-store-peers runs it.

    store_peers.py STORE.JSON VECTORS

VECTORS is little-endian f32, the query first. The function is that of langchain_core.vectorstores.utils, loaded from its
file, because the package around it asks for much more than the function does.
"""

import importlib.metadata
import importlib.util
import json
import pathlib
import statistics
import sys
import time

import numpy

ROUNDS = 7


def langchains_function():
    place = next(
        file.locate()
        for file in importlib.metadata.files("langchain-core")
        if str(file) == "langchain_core/vectorstores/utils.py"
    )
    specification = importlib.util.spec_from_file_location("langchain_vectorstores_utils", place)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.maximal_marginal_relevance


def main(report_path, vectors_path):
    report_path = pathlib.Path(report_path)
    report = json.loads(report_path.read_text())
    ours = report["mmr"]
    dimension, picks = int(ours["dimension"]), int(ours["k"])
    vectors = numpy.fromfile(vectors_path, dtype="<f4").reshape(-1, dimension)
    query, candidates = vectors[0], list(vectors[1:])
    choose = langchains_function()
    spent = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        chosen = choose(query, candidates, lambda_mult=0.5, k=picks)
        spent.append(time.perf_counter() - started)
        assert len(chosen) == picks
    theirs = statistics.median(spent) * 1e6
    ours["langchain_p50_us"] = round(theirs, 1)
    ours["langchain_version"] = importlib.metadata.version("langchain-core")
    ours["times_faster"] = round(theirs / ours["p50_us"], 1)
    report_path.write_text(json.dumps(report, indent=2))
    print(f"LangChain's maximal_marginal_relevance: {theirs:.0f} us, ours {ours['p50_us']} us: {ours['times_faster']} times as fast")


if __name__ == "__main__":
    main(*sys.argv[1:])
