"""Measures other embedding engines on the input of `make bench-embed`; scripts/bench-embed-peers runs it.

    embed_peers.py onnxruntime TEXTS RESULT             measures ONNX Runtime, f32 and int8
    embed_peers.py sentence-transformers TEXTS RESULT   measures sentence-transformers on torch
    embed_peers.py report EMBED RESULT...               adds the results to embed.json and prints the table

TEXTS is embed_texts.json: `documents`, the folder `model`, the number of `threads`, and perhaps `queries`. Every engine is
first checked against reference vectors. It then chooses its batch size on a subset, is warmed up, and makes three passes
over all documents, tokenising included; the best pass counts. Tokens are those of the texts, [CLS] and [SEP] included,
padding not. Beside each pass stand the load and the processor time that other processes took meanwhile: a pass is clean
where that is at most a twentieth of what the machine had.
"""

import importlib.metadata
import json
import logging
import os
import pathlib
import statistics
import sys
import tempfile
import time

PASSES = 3
BATCH_SIZES = (1, 4, 8, 16, 32, 64)
ARRIVAL_BATCH = 32
# Batch sizes are compared on two runs of so many texts, the largest batch: a few seconds for each size.
TUNING_RUN = max(BATCH_SIZES)
# At which the two graphs are compared: they differ by a few hundredths at any size.
GRAPH_BATCH = 8
QUERIES = 300
QUERY_TOKENS = 12
MAX_TOKENS = 256
LEAST_COSINE = 0.99999
CLEAN_SHARE = 0.05
REFERENCE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "minilm_reference.json"


def fail(message):
    sys.exit(f"embed_peers: {message}")


class Input:
    """What is embedded: the same texts for every engine."""

    def __init__(self, path):
        content = json.loads(pathlib.Path(path).read_text())
        # Rust writes every figure as a floating-point number.
        self.threads = int(content["threads"])
        self.model = pathlib.Path(content["model"])
        self.documents = content["documents"]
        # Read when the libraries below are first imported, so it comes before them.
        os.environ["RAYON_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(self.threads)
        os.environ["TOKENIZERS_PARALLELISM"] = "true"
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(str(self.model / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)
        self.lengths = [len(encoding.ids) for encoding in self.tokenizer.encode_batch_fast(self.documents)]
        self.tokens = sum(self.lengths)
        self.queries = content.get("queries") or self.cut_queries()

    def cut_queries(self):
        """Pieces of the documents that have just as many tokens as a query of the benchmark."""
        queries = []
        for start in range(max(map(len, self.documents))):
            for document in self.documents:
                words = document.split()[start:]
                for end in range(1, min(len(words), QUERY_TOKENS) + 1):
                    piece = " ".join(words[:end])
                    if len(self.tokenizer.encode(piece).ids) == QUERY_TOKENS:
                        queries.append(piece)
                        break
                if len(queries) == QUERIES:
                    return queries
        fail(f"the documents have no {QUERIES} pieces of {QUERY_TOKENS} tokens")

    def subset(self):
        """Two runs of documents of neighbouring lengths, one shorter and one longer, with their number of tokens: batches
        of them are padded as little as those of the whole, which a thin sample of all lengths would not be."""
        order = sorted(range(len(self.documents)), key=self.lengths.__getitem__)
        middles = (len(order) // 4, len(order) * 3 // 4)
        chosen = {index for middle in middles for index in order[max(0, middle - TUNING_RUN // 2) :][:TUNING_RUN]}
        # In order of arrival again, so that the engine has to sort as it would.
        chosen = sorted(chosen)
        return [self.documents[index] for index in chosen], sum(self.lengths[index] for index in chosen)


class Meter:
    """Times a stretch of work and what else ran on the machine meanwhile."""

    def __enter__(self):
        self.others = self.busy()
        self.started = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.seconds = time.perf_counter() - self.started
        self.others = None if self.others is None else max(0.0, self.busy() - self.others)

    @staticmethod
    def busy():
        """Seconds in which a processor ran another process than this one; None where the system does not tell."""
        try:
            first = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        except OSError:
            return None
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, first[:8])
        total = user + nice + system + irq + softirq + steal
        return total / os.sysconf("SC_CLK_TCK") - time.process_time()

    def record(self, tokens):
        clean = None if self.others is None else self.others <= CLEAN_SHARE * self.seconds * os.cpu_count()
        return {
            "tokens_per_s": round(tokens / self.seconds, 1),
            "seconds": round(self.seconds, 3),
            "other_cpu_s": None if self.others is None else round(self.others, 2),
            "load": [round(load, 2) for load in os.getloadavg()],
            "clean": clean,
        }


def best_choice(choices, embed, given):
    """The choice with which `embed(texts, choice)` is fastest on the subset, with all speeds. Two rounds, so that one
    disturbance does not decide."""
    texts, tokens = given.subset()
    speeds = {}
    for _ in range(2):
        for choice in choices:
            with Meter() as meter:
                embed(texts, choice)
            speeds[choice] = max(speeds.get(choice, 0.0), round(tokens / meter.seconds, 1))
    best = max(speeds, key=speeds.get)
    return best, {str(choice): speed for choice, speed in speeds.items()}


def passes(name, embed, given):
    """The best pass, with all passes, and the vectors of the last one."""
    embed(given.subset()[0])
    records = []
    vectors = None
    for number in range(PASSES):
        with Meter() as meter:
            vectors = embed(given.documents)
        records.append(meter.record(given.tokens))
        print(f"  {name}, pass {number + 1}: {json.dumps(records[-1])}", file=sys.stderr)
    return {"best": max(records, key=lambda record: record["tokens_per_s"]), "passes": records}, vectors


def query_p50(embed, given):
    """Median milliseconds of one query alone."""
    for query in given.queries[:20]:
        embed([query])
    with Meter() as meter:
        times = []
        for query in given.queries:
            started = time.perf_counter()
            embed([query])
            times.append(time.perf_counter() - started)
    record = meter.record(0)
    del record["tokens_per_s"]
    return round(statistics.median(times) * 1000, 3), record


def check(name, embed):
    """Ends the run unless `embed` gives the reference vectors, alone and in padded batches."""
    import numpy as np

    items = json.loads(REFERENCE.read_text())["items"]
    expected = np.array([item["embedding_256"] for item in items])
    texts = [item["text"] for item in items]
    for size in (1, 8):
        found = np.concatenate([embed(texts[at : at + size]) for at in range(0, len(texts), size)]).astype(np.float64)
        cosines = (found * expected).sum(1) / (np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1))
        worst = int(cosines.argmin())
        # Written so that a NaN fails too.
        if not cosines.min() >= LEAST_COSINE:
            fail(f"{name} is wrong in batches of {size}: cosine {cosines.min():.6f} at {items[worst]['name']!r}; nothing was timed")
    print(f"  {name}: least cosine to the reference {cosines.min():.7f}", file=sys.stderr)


class OnnxRuntime:
    """One graph, with as many threads as the benchmark has."""

    def __init__(self, given, model):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = given.threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.tokenizer = given.tokenizer

    def run(self, batch):
        import numpy as np

        lengths = np.array([len(ids) for ids in batch])
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int32)
        ids = np.zeros_like(mask)
        ids[mask == 1] = np.concatenate(batch)
        return self.session.run(None, {"input_ids": ids, "attention_mask": mask})[0]

    def embed(self, texts, size, ordered):
        """Vectors of the texts, in their order. `ordered` batches them by length."""
        import numpy as np

        ids = [encoding.ids for encoding in self.tokenizer.encode_batch_fast(texts)]
        order = sorted(range(len(ids)), key=lambda index: len(ids[index])) if ordered else list(range(len(ids)))
        vectors = [self.run([ids[index] for index in order[at : at + size]]) for at in range(0, len(order), size)]
        result = np.empty((len(texts), vectors[0].shape[1]), np.float32)
        result[order] = np.concatenate(vectors)
        return result


def graphs(given):
    """The f32 graphs, by name."""
    import embed_peers_graph
    import onnx
    from onnxruntime.transformers import optimizer

    encoder = embed_peers_graph.Encoder(given.model)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "standard.onnx"
        onnx.save(embed_peers_graph.standard(encoder), path)
        optimized = optimizer.optimize_model(
            str(path), model_type="bert", num_heads=encoder.heads, hidden_size=encoder.hidden, opt_level=0
        )
    return {"optimizer": optimized.model, "operators": embed_peers_graph.fused(encoder)}


def quantized(model):
    """Its linear layers in int8, weights per channel, activations as they come. The range of the weights is reduced to 7
    bits, which processors without VNNI need to be right."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "int8.onnx"
        quantize_dynamic(
            model,
            path,
            op_types_to_quantize=["MatMul", "Attention"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            # Shape inference does not see through the fused operators; all that they give is f32.
            extra_options={"MatMulConstBOnly": True, "DefaultTensorType": onnx.TensorProto.FLOAT},
        )
        return onnx.load(path)


def fastest(engines, given):
    """The fastest graph and its fastest batch size, sorted by length, with the speeds of all that were tried."""
    graph, by_graph = best_choice(engines, lambda texts, name: engines[name].embed(texts, GRAPH_BATCH, True), given)
    size, by_size = best_choice(BATCH_SIZES, lambda texts, size: engines[graph].embed(texts, size, True), given)
    print(f"  fastest: graph {graph}, batches of {size}", file=sys.stderr)
    return graph, size, {"graphs": by_graph, "batches": by_size}


def measure_onnxruntime(given):
    import numpy as np

    # The quantiser advises of a preparation that these graphs have had.
    logging.getLogger().setLevel(logging.ERROR)
    models = graphs(given)
    engines = {name: OnnxRuntime(given, model) for name, model in models.items()}
    for name, engine in engines.items():
        check(f"onnxruntime, graph {name}", lambda texts, engine=engine: engine.embed(texts, len(texts), False))
    graph, size, tuning = fastest(engines, given)
    engine = engines[graph]
    del engines
    by_length, exact = passes("f32 sorted", lambda texts: engine.embed(texts, size, True), given)
    arrival, _ = passes("f32 in order of arrival", lambda texts: engine.embed(texts, ARRIVAL_BATCH, False), given)
    p50, query = query_p50(lambda texts: engine.embed(texts, 1, False), given)
    del engine

    engines = {name: OnnxRuntime(given, quantized(model)) for name, model in models.items()}
    int8_graph, int8_size, int8_tuning = fastest(engines, given)
    engine = engines[int8_graph]
    del engines
    int8, rounded = passes("int8 sorted", lambda texts: engine.embed(texts, int8_size, True), given)
    cosines = (exact * rounded).sum(1) / (np.linalg.norm(exact, axis=1) * np.linalg.norm(rounded, axis=1))
    return {
        "figures": {
            "onnxruntime_arrival_tokens_per_s": arrival["best"]["tokens_per_s"],
            "onnxruntime_arrival_batch": ARRIVAL_BATCH,
            "onnxruntime_sorted_tokens_per_s": by_length["best"]["tokens_per_s"],
            "onnxruntime_sorted_batch": size,
            "onnxruntime_query_p50_ms": p50,
            "onnxruntime_int8_sorted_tokens_per_s": int8["best"]["tokens_per_s"],
            "onnxruntime_int8_sorted_batch": int8_size,
            "onnxruntime_int8_cosine_mean": round(float(cosines.mean()), 5),
            "onnxruntime_int8_cosine_least": round(float(cosines.min()), 5),
        },
        "details": {
            "graph": graph,
            "arrival": arrival,
            "sorted": {**by_length, "tuning": tuning},
            "query": query,
            "int8_graph": int8_graph,
            "int8_sorted": {**int8, "tuning": int8_tuning},
            "versions": versions("onnxruntime", "onnx", "tokenizers", "numpy"),
        },
    }


def measure_sentence_transformers(given):
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(given.threads)
    model = SentenceTransformer(str(given.model), device="cpu")
    model.max_seq_length = MAX_TOKENS

    def embed(texts, size):
        return model.encode(texts, batch_size=size, show_progress_bar=False)

    check("sentence-transformers", lambda texts: embed(texts, len(texts)))
    size, tuning = best_choice(BATCH_SIZES, embed, given)
    print(f"  fastest: batches of {size}", file=sys.stderr)
    documents, _ = passes("f32", lambda texts: embed(texts, size), given)
    p50, query = query_p50(lambda texts: embed(texts, 1), given)
    return {
        "figures": {
            "sentence_transformers_tokens_per_s": documents["best"]["tokens_per_s"],
            "sentence_transformers_batch": size,
            "sentence_transformers_query_p50_ms": p50,
        },
        "details": {
            "documents": {**documents, "tuning": tuning},
            "query": query,
            "versions": versions("sentence-transformers", "transformers", "torch", "tokenizers"),
        },
    }


def versions(*packages):
    return {package: importlib.metadata.version(package) for package in packages}


def measure(engine, texts, result):
    given = Input(texts)
    print(
        f"  {len(given.documents)} texts, {given.tokens} tokens, {given.threads} threads, load {os.getloadavg()[0]:.1f}",
        file=sys.stderr,
    )
    measured = {"onnxruntime": measure_onnxruntime, "sentence-transformers": measure_sentence_transformers}[engine](given)
    measured["details"]["texts"] = {"documents": len(given.documents), "tokens": given.tokens, "threads": given.threads}
    pathlib.Path(result).write_text(json.dumps({"engine": engine, **measured}, indent=2) + "\n")


OURS = "toller"
# Ratio to add, and the figure that ours is divided by.
RATIOS = {
    "ratio_vs_onnxruntime_sorted": "onnxruntime_sorted_tokens_per_s",
    "ratio_vs_onnxruntime_arrival": "onnxruntime_arrival_tokens_per_s",
    "ratio_vs_sentence_transformers": "sentence_transformers_tokens_per_s",
}
# A row of the table: its name, the beginning of its keys, the key of its queries' median, and its passes in the details.
ROWS = (
    ("onnxruntime f32, arrival order", "onnxruntime_arrival", None, ("onnxruntime", "arrival")),
    ("onnxruntime f32, sorted", "onnxruntime_sorted", "onnxruntime_query_p50_ms", ("onnxruntime", "sorted")),
    ("onnxruntime int8, sorted", "onnxruntime_int8_sorted", None, ("onnxruntime", "int8_sorted")),
    (
        "sentence-transformers f32",
        "sentence_transformers",
        "sentence_transformers_query_p50_ms",
        ("sentence-transformers", "documents"),
    ),
)


def report(path, results):
    """Replaces what an earlier run added to embed.json, in one step, and prints the table."""
    path = pathlib.Path(path)
    former = json.loads(path.read_text())
    if not isinstance(former.get("tokens_per_s"), (int, float)):
        fail(f"{path} has no tokens_per_s: run make bench-embed first")
    added = ("onnxruntime_", "sentence_transformers_", "ratio_vs_onnxruntime_", "ratio_vs_sentence_transformers")
    figures = {key: value for key, value in former.items() if not key.startswith(added) and key != "peers"}
    details = {}
    for result in map(pathlib.Path, results):
        measured = json.loads(result.read_text())
        figures.update(measured["figures"])
        details[measured["engine"]] = measured["details"]
        counted = measured["details"]["texts"]["tokens"]
        if figures.get("tokens", counted) != counted:
            fail(f"{path} counts {figures['tokens']} tokens and {measured['engine']} {counted}: not the same input")
    for ratio, figure in RATIOS.items():
        if figure in figures:
            figures[ratio] = round(figures["tokens_per_s"] / figures[figure], 3)
    figures["peers"] = details
    whole = path.with_suffix(".json.new")
    whole.write_text(json.dumps(figures, indent=2) + "\n")
    whole.replace(path)

    head = ("engine", "tokens/s", "ours is", "batch", "query p50 ms", "other CPU s of wall s in best pass", "load")
    lines = [head, (OURS, f"{figures['tokens_per_s']:.0f}", "", "", text_of(figures.get("query_p50_ms")), "", "")]
    disturbed = []
    for name, prefix, query, (engine, part) in ROWS:
        if engine not in details:
            lines.append((name, "not measured", "", "", "", "", ""))
            continue
        best = details[engine][part]["best"]
        if best["clean"] is False:
            disturbed.append(f"the best pass of {name}")
        if query and details[engine]["query"]["clean"] is False:
            disturbed.append(f"the queries of {name}")
        speed = figures[f"{prefix}_tokens_per_s"]
        lines.append(
            (
                name,
                f"{speed:.0f}",
                f"{figures['tokens_per_s'] / speed:.2f} x",
                str(figures[f"{prefix}_batch"]),
                text_of(figures.get(query)),
                f"{text_of(best['other_cpu_s'])} of {best['seconds']:.1f}",
                text_of(best["load"][0]),
            )
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    if "onnxruntime_int8_cosine_mean" in figures:
        mean, least = figures["onnxruntime_int8_cosine_mean"], figures["onnxruntime_int8_cosine_least"]
        print(f"int8 against f32: cosine {mean} on average, {least} at least")
    for engine, detail in details.items():
        print(f"{engine}: " + ", ".join(f"{package} {version}" for package, version in detail["versions"].items()))
    for name in disturbed:
        print(f"NOT CLEAN: other processes ran during {name}: measure again on a quiet machine")
    print(f"results: {path}")


def text_of(number):
    return "" if number is None else f"{number:.2f}"


def main(arguments):
    if len(arguments) == 3 and arguments[0] in ("onnxruntime", "sentence-transformers"):
        measure(*arguments)
    elif len(arguments) >= 3 and arguments[0] == "report":
        report(arguments[1], arguments[2:])
    else:
        fail(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
