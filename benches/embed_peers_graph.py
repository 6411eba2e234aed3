"""The encoder of a sentence-transformers folder (BERT, mean pooling, L2 norm) as an ONNX graph, for embed_peers.py.

It is written from the weights, not traced: an export by tracing gave wrong vectors for padded batches. There are two
spellings of the same arithmetic, since neither is always the faster: `standard` has standard operators only, which
onnxruntime.transformers.optimizer then fuses; `fused` calls the fused operators of ONNX Runtime (domain com.microsoft)
directly. Both take `input_ids` and `attention_mask` (batch × sequence, int32, padding on the right) and give
`embedding` (batch × hidden, f32, unit length).
"""

import json
import math
import pathlib

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper
from safetensors.numpy import load_file

STANDARD = ""
MICROSOFT = "com.microsoft"
# 17 is the first with LayerNormalization; the optimizer knows no operator of later ones that would help here.
OPSET = 17
INPUTS = ("input_ids", "attention_mask")
# What masked scores get, as in the reference: the least f32.
MASKED = float(np.finfo(np.float32).min)


class Encoder:
    """The weights and sizes that a graph is made from."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        config = json.loads((folder / "config.json").read_text())
        pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
        if config["model_type"] != "bert" or config["hidden_act"] != "gelu" or not pooling["pooling_mode_mean_tokens"]:
            raise ValueError(f"{folder}: only BERT with exact GELU and mean pooling is known here")
        self.hidden = config["hidden_size"]
        self.heads = config["num_attention_heads"]
        self.layers = config["num_hidden_layers"]
        self.epsilon = config["layer_norm_eps"]
        self.weights = load_file(folder / "model.safetensors")

    def vector(self, name):
        return self.weights[name]

    def matrix(self, name):
        """A linear layer's weight as MatMul wants it: input × output."""
        return np.ascontiguousarray(self.weights[f"{name}.weight"].T)

    def positions(self):
        """Position embeddings with the one token type that is ever used already added."""
        types = self.weights["embeddings.token_type_embeddings.weight"]
        return self.weights["embeddings.position_embeddings.weight"] + types[0]


class Graph:
    """Collects nodes and weights; every method that adds a node returns the name of its output."""

    def __init__(self):
        self.nodes = []
        self.initializers = []

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, kind, name, inputs, domain=STANDARD, outputs=1, **attributes):
        names = [name] + [f"{name}.{index}" for index in range(1, outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=name, domain=domain, **attributes))
        return name

    def linear(self, name, inputs, weight, bias):
        product = self.op("MatMul", f"{name}.product", [inputs, self.constant(f"{name}.weight", weight)])
        return self.op("Add", name, [product, self.constant(f"{name}.bias", bias)])

    def norm_weights(self, encoder, name):
        return [self.constant(f"{name}.{part}", encoder.vector(f"{name}.{part}")) for part in ("weight", "bias")]

    def model(self, states, hidden):
        """The whole model: the mean of the tokens' states that the mask keeps, at unit length. Their sum will do for the
        mean: the two differ by a factor, which the norm takes out."""
        axis = self.constant("pooled.axis", np.array([1], np.int64))
        kept = self.op("Cast", "kept", [self.op("Unsqueeze", "kept.rows", ["attention_mask", axis])], to=TensorProto.FLOAT)
        total = self.op("Squeeze", "pooled.row", [self.op("MatMul", "pooled", [kept, states]), axis])
        self.op("LpNormalization", "embedding", [total], axis=1, p=2)
        graph = helper.make_graph(
            self.nodes,
            "encoder",
            [helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", "sequence"]) for name in INPUTS],
            [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", hidden])],
            self.initializers,
        )
        versions = [helper.make_opsetid(STANDARD, OPSET), helper.make_opsetid(MICROSOFT, 1)]
        # The file format's version that goes with this operator set, so that any ONNX Runtime of these years reads it.
        model = helper.make_model(graph, opset_imports=versions, ir_version=8)
        checker.check_model(model)
        return model


def standard(encoder):
    """Standard operators, in the pattern that the optimizer's fusions look for."""
    graph = Graph()
    hidden, heads = encoder.hidden, encoder.heads
    size = hidden // heads
    split = graph.constant("split", np.array([0, 0, heads, size], np.int64))
    join = graph.constant("join", np.array([0, 0, hidden], np.int64))
    root = graph.constant("root", np.float32(math.sqrt(size)))
    one = graph.constant("one", np.float32(1))
    half = graph.constant("half", np.float32(0.5))
    root_two = graph.constant("root_two", np.float32(math.sqrt(2)))

    axis = {index: graph.constant(f"axis.{index}", np.array([index], np.int64)) for index in (0, 1, 2)}
    rows = graph.op("Unsqueeze", "mask.rows", ["attention_mask", axis[1]])
    bits = graph.op("Cast", "mask.bits", [graph.op("Unsqueeze", "mask.heads", [rows, axis[2]])], to=TensorProto.FLOAT)
    removed = graph.op("Sub", "mask.removed", [one, bits])
    mask = graph.op("Mul", "mask", [removed, graph.constant("masked", np.float32(MASKED))])

    words = graph.op(
        "Gather", "words", [graph.constant("words.table", encoder.vector("embeddings.word_embeddings.weight")), "input_ids"]
    )
    length = graph.op("Slice", "length", [graph.op("Shape", "shape", ["input_ids"]), axis[1], axis[2]])
    positions = graph.constant("positions.table", encoder.positions())
    places = graph.op("Slice", "places", [positions, axis[0], length, axis[0]])
    states = graph.op(
        "LayerNormalization",
        "embedded",
        [graph.op("Add", "summed", [words, places]), *graph.norm_weights(encoder, "embeddings.LayerNorm")],
        axis=-1,
        epsilon=encoder.epsilon,
    )

    def linear(name, inputs):
        return graph.linear(name, inputs, encoder.matrix(name), encoder.vector(f"{name}.bias"))

    def by_head(name, inputs, order):
        rows = graph.op("Reshape", f"{name}.split", [linear(name, inputs), split])
        return graph.op("Transpose", f"{name}.heads", [rows], perm=order)

    def add_and_norm(name, left, right):
        summed = graph.op("Add", f"{name}.summed", [left, right])
        weights = graph.norm_weights(encoder, name)
        return graph.op("LayerNormalization", name, [summed, *weights], axis=-1, epsilon=encoder.epsilon)

    for index in range(encoder.layers):
        layer = f"encoder.layer.{index}"
        query = by_head(f"{layer}.attention.self.query", states, [0, 2, 1, 3])
        key = by_head(f"{layer}.attention.self.key", states, [0, 2, 3, 1])
        value = by_head(f"{layer}.attention.self.value", states, [0, 2, 1, 3])
        scores = graph.op("Div", f"{layer}.scaled", [graph.op("MatMul", f"{layer}.scores", [query, key]), root])
        weights = graph.op("Softmax", f"{layer}.softmax", [graph.op("Add", f"{layer}.masked", [scores, mask])], axis=-1)
        context = graph.op("MatMul", f"{layer}.context", [weights, value])
        context = graph.op("Transpose", f"{layer}.context.rows", [context], perm=[0, 2, 1, 3])
        context = graph.op("Reshape", f"{layer}.context.joined", [context, join])
        attended = linear(f"{layer}.attention.output.dense", context)
        states = add_and_norm(f"{layer}.attention.output.LayerNorm", attended, states)

        up = linear(f"{layer}.intermediate.dense", states)
        error = graph.op("Erf", f"{layer}.erf", [graph.op("Div", f"{layer}.erf.in", [up, root_two])])
        gelu = graph.op("Mul", f"{layer}.gelu.in", [up, graph.op("Add", f"{layer}.erf.out", [error, one])])
        down = linear(f"{layer}.output.dense", graph.op("Mul", f"{layer}.gelu", [gelu, half]))
        states = add_and_norm(f"{layer}.output.LayerNorm", down, states)

    return graph.model(states, hidden)


def fused(encoder):
    """ONNX Runtime's own fused operators, with the mask as the number of tokens of each text."""
    graph = Graph()
    hidden, heads = encoder.hidden, encoder.heads

    def linear(name, inputs):
        return graph.op("MatMul", name, [inputs, graph.constant(f"{name}.weight", encoder.matrix(name))])

    def bias(name):
        return graph.constant(f"{name}.bias", encoder.vector(f"{name}.bias"))

    graph.op(
        "EmbedLayerNormalization",
        "embedded",
        [
            "input_ids",
            "",
            graph.constant("words", encoder.vector("embeddings.word_embeddings.weight")),
            graph.constant("positions", encoder.positions()),
            "",
            *graph.norm_weights(encoder, "embeddings.LayerNorm"),
            "attention_mask",
        ],
        domain=MICROSOFT,
        outputs=2,
        epsilon=encoder.epsilon,
    )
    states = "embedded"
    for index in range(encoder.layers):
        layer = f"encoder.layer.{index}"
        parts = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
        biases = graph.constant(f"{layer}.qkv.bias", np.concatenate([encoder.vector(f"{part}.bias") for part in parts]))
        weights = np.concatenate([encoder.matrix(part) for part in parts], axis=1)
        context = graph.op(
            "Attention",
            f"{layer}.attention",
            [states, graph.constant(f"{layer}.qkv.weight", weights), biases, "embedded.1"],
            domain=MICROSOFT,
            num_heads=heads,
            mask_filter_value=MASKED,
        )

        def add_and_norm(dense, name, inputs, skip):
            return graph.op(
                "SkipLayerNormalization",
                name,
                [linear(dense, inputs), skip, *graph.norm_weights(encoder, name), bias(dense)],
                domain=MICROSOFT,
                epsilon=encoder.epsilon,
            )

        output = f"{layer}.attention.output"
        states = add_and_norm(f"{output}.dense", f"{output}.LayerNorm", context, states)
        up = f"{layer}.intermediate.dense"
        gelu = graph.op("BiasGelu", f"{layer}.gelu", [linear(up, states), bias(up)], domain=MICROSOFT)
        states = add_and_norm(f"{layer}.output.dense", f"{layer}.output.LayerNorm", gelu, states)

    return graph.model(states, hidden)
